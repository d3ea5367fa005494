#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A file of mistakes: each must stop the compiler with its sentence, in one error of few lines.
# In the file, a mistake is `#if WRONG == N  // expect: the sentence` (or #elif); with WRONG == 0 it
# is right and must compile, so that the errors come from the mistakes alone.
# usage: compile_fail.sh FILE COMPILER OPTION...
source "$(dirname "$0")/cases.sh"
file=$1
shift
most_lines=14
compiles() { output=$("$@" -std=c++20 -fsyntax-only "$file" 2>&1); }

mistakes=$(sed -nE 's/^#(el)?if WRONG == ([1-9][0-9]*) +\/\/ expect: (.*)$/\2 \3/p' "$file")
declare_cases $((1 + $(grep -c . <<<"$mistakes")))

if [ -z "$mistakes" ]; then
  fail "$file: no line says: #if WRONG == 1  // expect: a sentence"
elif compiles "$@" -DWRONG=0; then
  pass
else
  fail "$file does not compile without a mistake"
  echo "$output"
fi
while read -r number sentence; do
  [ -n "$number" ] || continue
  if compiles "$@" -DWRONG="$number"; then
    fail "mistake $number compiles"
  elif ! grep -qF -- "$sentence" <<<"$output"; then
    fail "mistake $number: the compiler does not say: $sentence"
    echo "$output"
  elif [ "$(grep -c 'error: ' <<<"$output")" -ne 1 ] ||
    [ "$(wc -l <<<"$output")" -gt $most_lines ]; then
    fail "mistake $number: more than one error or more than $most_lines lines"
    echo "$output"
  else
    pass
  fi
done <<<"$mistakes"
finish
