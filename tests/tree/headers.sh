#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles each header alone, included twice, in a file of its own; a header is a case.
# usage: headers.sh INCLUDE_DIR COMPILER OPTION...
source "$(dirname "$0")/cases.sh"
here=$(cd "$(dirname "$0")" && pwd)
include=$1
shift
export include compile="$* -std=c++20 -I$include"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export work

check() {
  local name=${1//\//_}
  printf '#include <%s>\n#include <%s>\n' "$1" "$1" >"$work/$name.cpp"
  if $compile "$work/$name.cpp" -o "$work/$name.o" >"$work/$name.log" 2>&1; then
    echo "$1" >>"$work/good"
  else
    printf 'FAILED: %s\n%s\n' "$1" "$(head -n 30 "$work/$name.log")"
  fi
}
export -f check

# What lies in detail/ is reached through the others: with a second compiler, over the same standard
# library, that must do. nvcc, which takes long to start, reads each .cuh alone and all .hpp in one.
headers=$(cd "$include" && find zero -name '*.hpp' | sort)
case $compile in *nvcc*|*clang*) headers=$(grep -v /detail/ <<<"$headers") ;; esac
headers=$(bash "$here/present.sh" "$compile" <<<"$headers")
if [[ $compile == *nvcc* ]]; then
  sed 's/.*/#include <&>/' <<<"$headers" >"$work/every_header.hpp"
  headers=$(cd "$include" && find zero -name '*.cuh' | grep -v /detail/ | sort)
  headers=$(bash "$here/present.sh" "$compile" <<<"$headers")$'\n'every_header.hpp
  compile+=" -I$work"
fi
if [[ $compile == *clang* ]]; then
  # The standard library, which the first compiler reads anew before each header, is read once.
  grep -rhoE '^#include <[a-z_0-9]+>' "$include/zero" | sort -u >"$work/standard.hpp"
  if ${compile/-fsyntax-only/} -x c++-header "$work/standard.hpp" -o "$work/standard.pch"; then
    compile+=" -include-pch $work/standard.pch"
  fi
fi
declare_cases "$(grep -c . <<<"$headers")"
xargs -P 2 -I{} bash -c 'check {}' <<<"$headers"
passed=$(cat "$work/good" 2>/dev/null | wc -l)
finish
