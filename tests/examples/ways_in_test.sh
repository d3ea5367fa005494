#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/ways_in: every way prints the losses of the loop by hand, as hex floats; and the table of
# docs/ways-in.md has the lines that differ, as they are counted here: taken out and put in.
# usage: ways_in_test.sh EXAMPLES_DIR SOURCE_DIR
source "$(dirname "$0")/../tree/cases.sh"
examples=$1 source=$2 page=$2/docs/ways-in.md
declare_cases 9
expected=$("$examples/ways_in_by_hand")
if [ "$(grep -c 'loss 0x1' <<<"$expected")" -eq 10 ]; then
  pass
else
  fail "by_hand prints no ten losses: $expected"
fi
for way in optimizer tensor layers; do
  if diff <(echo "$expected") <("$examples/ways_in_$way" 2>&1); then
    pass
  else
    fail "the losses of $way (lines >) differ from those by hand"
  fi
done
# The loop: from its `for` to the line that prints the loss. A program: all but its comments.
loop() { sed -n '/^  for (int .* < steps;/,/std::printf("step/p' "$1"; }
program() { sed -E '/^ *\/\//d; /^$/d' "$1"; }
changed() { diff -w <("$1" "$2") <("$1" "$3") | grep -c '^[<>]'; }
row() {
  local expected
  expected="| \`$1\` | $(changed loop "$2" "$3") | $(changed program "$2" "$3") |"
  if grep -qF "$expected" "$page"; then
    pass
  else
    fail "docs/ways-in.md needs a row with '$expected', lines of the loop and of the program"
  fi
}
for way in optimizer tensor layers; do
  row ways_in/$way.cpp "$source"/examples/ways_in/{by_hand,$way}.cpp
done
for kind in cpp cu; do
  row adopt/train_with_zero.$kind "$source"/examples/adopt/train_{by_hand,with_zero}.$kind
done
finish
