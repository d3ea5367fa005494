#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All files of mistakes here, with each compiler; how a file is read stands in tree/compile_fail.sh.
# usage: run.sh [COMPILER...]      without arguments: g++ clang++
cd "$(dirname "$0")" || exit 2
[ $# -gt 0 ] || set -- g++ clang++
declared=0
passed=0
for compiler in "$@"; do
  for file in *.cpp; do
    output=$(bash ../tree/compile_fail.sh "$file" "$compiler" -I../../include)
    grep -v '^zero-cases: ' <<<"$output" | sed "s#^FAILED#$compiler, $file: FAILED#"
    declared=$((declared + $(sed -n 's/^zero-cases: declared //p' <<<"$output")))
    passed=$((passed + $(sed -n 's/^zero-cases: passed //p' <<<"$output")))
  done
done
echo "$passed passed, $((declared - passed)) failed"
[ "$declared" -gt 0 ] && [ "$passed" -eq "$declared" ]
