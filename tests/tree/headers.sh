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

check() { # HEADER [HUB]
  local name=${1//\//_} hub=${2:+-include $work/${2//\//_}}
  printf '#include <%s>\n#include <%s>\n' "$1" "$1" >"$work/$name.cpp"
  if $compile $hub "$work/$name.cpp" -o "$work/$name.o" >"$work/$name.log" 2>&1; then
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
headers=$(bash "$here/present.sh" "$include" "$compile" <<<"$headers")

if [[ $compile == *nvcc* ]]; then
  sed 's/.*/#include <&>/' <<<"$headers" >"$work/every_header.hpp"
  headers=$(cd "$include" && find zero -name '*.cuh' | grep -v /detail/ | sort)
  headers=$(bash "$here/present.sh" "$include" "$compile" <<<"$headers")$'\n'every_header.hpp
  compile+=" -I$work"
else
  # Half of the time goes into reading the same again. A header that itself includes all that a hub
  # includes sees no more if that is precompiled. The later hubs are the larger ones.
  hubs=(zero/{schedule/model_shape,layout/tensor,device/cuda/stream,device/host_stream}.hpp
    zero/{checkpoint/detail/rank_file,module/parameter_table,module/detail/engine_parts}.hpp)
  hubs=($(cd "$include" && ls -U "${hubs[@]}" 2>/dev/null |
    bash "$here/present.sh" "$include" "$compile" 2>/dev/null))
  precompile() {
    echo "#include <$1>" >"$work/${1//\//_}"
    ${compile/-fsyntax-only/} -x c++-header "$work/${1//\//_}" -o "$work/${1//\//_}.gch"
  }
  export -f precompile
  printf '%s\n' "${hubs[@]}" | xargs -P 2 -I{} bash -c 'precompile {}'
  headers=$(cd "$include" && awk -v hubs="${hubs[*]}" '
    function visit(header, from,  i, n, names) {
      n = split(includes[header], names)
      for (i = 1; i <= n; ++i)
        if (!((from, names[i]) in sees)) {
          sees[from, names[i]]
          all[from] = all[from] " " names[i]
          visit(names[i], from)
        }
    }
    function covers(header, hub,  i, n, names) {
      n = split(hub all[hub], names)
      for (i = 1; i <= n; ++i)
        if (!((header, names[i]) in sees)) return 0
      return 1
    }
    match($0, /^ *# *include <[^>]*>/) {
      gsub(/.*<|>.*/, "")
      includes[FILENAME] = includes[FILENAME] " " $0
    }
    END {
      for (i = 1; i < ARGC; ++i) visit(ARGV[i], ARGV[i])
      n = split(hubs, names)
      for (i = 1; i < ARGC; ++i) {
        hub = ""
        for (k = 1; k <= n; ++k)
          if (covers(ARGV[i], names[k])) hub = names[k]
        print ARGV[i], hub
      }
    }' $headers)
fi
declare_cases "$(grep -c . <<<"$headers")"
xargs -P 2 -I{} bash -c 'check {}' <<<"$headers"
passed=$(cat "$work/good" 2>/dev/null | wc -l)
finish
