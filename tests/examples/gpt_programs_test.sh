#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the GPT programs print and return.
# usage: gpt_programs_test.sh TRAIN DEMO TEXT
source "$(dirname "$0")/../tree/cases.sh"
train=$1 demo=$2 text=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
declare_cases 13
small=(--layers 2 --width 16 --heads 2 --context 16 --text "$text")

# ends CODE PATTERN COMMAND...: the command returns CODE; what it prints matches PATTERN somewhere.
ends() {
  local code=$1 pattern=$2 status
  shift 2
  "$@" >"$folder/out" 2>&1 </dev/null
  status=$?
  if [ $status -eq "$code" ] && grep -qE -e "$pattern" "$folder/out"; then
    pass
  else
    fail "$* returned $status, expected $code and '$pattern' in:"
    tail -n 5 "$folder/out"
  fi
}
# refuses PATTERN ARGUMENT...: both programs say one line and return 2.
refuses() {
  local pattern=$1 program
  shift
  for program in "$train" "$demo"; do
    ends 2 "$pattern" "$program" "$@"
    [ "$(wc -l <"$folder/out")" -eq 1 ] && continue
    fail "not one line: $(cat "$folder/out")"
    passed=$((passed - 1))
  done
}

touch "$folder/empty"
refuses '^gpt_(train|demo): --ranks takes a whole number from 1 to 64, not .0.\.$' --ranks 0
refuses 'The text .*/missing cannot be read' --text "$folder/missing"
refuses 'The text .*/empty is empty' --text "$folder/empty"
refuses 'is not divisible by --heads' --width 130
ends 2 'cannot be written: choose another folder' \
  "$demo" "${small[@]}" --steps 1 --output "$folder/empty/below"

ends 0 'parameters; [0-9]+ bytes held and [0-9]+ bytes sent' \
  "$train" "${small[@]}" --ranks 3 --stage 2 --micro-steps 2 --steps 5 --sample 20
ends 0 'The losses of all 5 steps are the same bits' \
  "$demo" "${small[@]}" --ranks 2 --micro-steps 2 --steps 5 --sample 20 --output "$folder/results"
if grep -q '"losses_hex"' "$folder/results/report.json" &&
  grep -q '</svg>' "$folder/results/timeline.svg" &&
  grep -q '"name":"forward block.1"' "$folder/results/trace.json"; then
  pass
else
  fail "report.json, timeline.svg and trace.json are not all there"
fi

# The shell of a script starts what runs in the background with interrupts ignored, so another one
# is sent that ends a program in the same way.
rm "$folder/out" # which speaks of steps already
"$train" "${small[@]}" --steps 1000000 >"$folder/out" 2>&1 </dev/null &
program=$!
for ((i = 0; i < 300; ++i)); do
  grep -qs 'step' "$folder/out" && break
  sleep 0.1
done
kill -TERM $program
wait $program
status=$?
if [ $status -eq 130 ] && grep -qE '^gpt_train: Interrupted after step [0-9]+\.$' "$folder/out"; then
  pass
else
  fail "an interrupt made it return $status: $(tail -n 3 "$folder/out")"
fi
finish
