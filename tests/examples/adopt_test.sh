#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/adopt: the program by hand and the one with zero print the same losses, as hex floats, at
# all stages, and few lines of the training loop differ: those that docs/adopt.md shows.
# usage: adopt_test.sh BY_HAND WITH_ZERO SOURCE_DIR cpp|cu
source "$(dirname "$0")/../tree/cases.sh"
by_hand=$1 with_zero=$2 folder=$3/examples/adopt kind=$4
declare_cases 7
expected=$("$by_hand")
if [ "$(grep -c 'loss 0x1' <<<"$expected")" -eq 12 ]; then
  pass
else
  fail "train_by_hand prints no twelve losses: $expected"
fi
for stage in 0 1 2 3; do
  if diff <(echo "$expected") <("$with_zero" $stage 2>&1); then
    pass
  else
    fail "the losses of stage $stage (lines >) differ from those by hand"
  fi
done
# The loop: from its `for` to the line that prints the loss. Changed: lines taken out and put in, but
# for their indentation.
loop() { sed -n '/^  for (int .* < steps;/,/std::printf("step/p' "$1" | sed 's/^  //'; }
changes=$(diff -w -U99 <(loop "$folder/train_by_hand.$kind") <(loop "$folder/train_with_zero.$kind") |
  tail -n +4)
changed=$(grep -c '^[+-]' <<<"$changes")
if [ "$changed" -gt 20 ] && [ "$changed" -le 40 ]; then
  pass
else
  fail "$changed lines of the training loop differ, and at most 40 may"
fi
shown=$(awk -v marker="<!-- changes to train_with_zero.$kind -->" '
  $0 == marker { found = 1 }
  /^```/ && found { if (inside) exit; inside = 1; next }
  inside' "$3/docs/adopt.md")
if diff <(echo "$changes") <(echo "$shown"); then
  pass
else
  fail "docs/adopt.md shows other changes of the loop (lines > are the page's)"
fi
finish
