#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All headers together, in two files linked into one program: no name is defined twice, and no
# header runs code at program start.
# usage: one_definition_test.sh INCLUDE_DIR COMPILER OPTION...
source "$(dirname "$0")/cases.sh"
include=$1
compiler=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
declare_cases 2

options="-std=c++20 -I$include $* -pthread"
(cd "$include" && find zero -name '*.hpp' | sort) |
  bash "$(dirname "$0")/present.sh" "$include" "$compiler $options" | sed 's/.*/#include <&>/' >"$work/all.hpp"
# A file and the same once more, its function renamed: what is not inline collides all the same.
printf '#include "all.hpp"\nextern "C" int one() { return 0; }\n' >"$work/one.cpp"
printf 'extern "C" int one(), other();\nint main() { return one() + other(); }\n' >"$work/main.cpp"
if $compiler $options -c "$work/one.cpp" -o "$work/one.o" &&
  objcopy --redefine-sym one=other "$work/one.o" "$work/other.o" &&
  $compiler $options "$work"/{main.cpp,one.o,other.o} -o "$work/main" && "$work/main"; then
  pass
else
  fail "two files that include all headers do not link"
fi
if [ -f "$work/other.o" ] && ! nm -C "$work/other.o" | grep -E 'GLOBAL__sub_I|static_init'; then
  pass
else
  fail "a header has a static initialiser"
fi
finish
