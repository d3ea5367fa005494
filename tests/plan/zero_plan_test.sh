#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What zero-plan says to a person at the command line.
# usage: zero_plan_test.sh ZERO_PLAN
source "$(dirname "$0")/../tree/cases.sh"
plan=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
declare_cases 22

# answers TITLE PATTERN ARGUMENT...: exits with 0 and a line of its output has the pattern.
answers() {
  local title=$1 pattern=$2 output
  shift 2
  if output=$("$plan" "$@" 2>&1) && grep -qE -- "$pattern" <<<"$output"; then
    pass
  else
    fail "$title"
    head -n 5 <<<"$output"
  fi
}
# refuses TITLE PATTERN ARGUMENT...: exits with 2, prints nothing, and one sentence as its error.
refuses() {
  local title=$1 pattern=$2 status=0
  shift 2
  "$plan" "$@" >"$work/out" 2>"$work/err" || status=$?
  if [ $status = 2 ] && [ ! -s "$work/out" ] && [ "$(wc -l <"$work/err")" = 1 ] &&
    grep -qE -- "^zero-plan: .*$pattern.*\.\$" "$work/err"; then
    pass
  else
    fail "$title: exit status $status"
    cat "$work/out" "$work/err"
  fi
}

answers "the usual question" '^zero3 is the fastest of [0-9]+ that fit: ' \
  --model llama3-70b --devices 64 --stage all
answers "nothing fits" '^Nothing fits: .* It fits on [0-9]+ devices' \
  --model llama3-405b --devices 16 --device h200
answers "a stage by number" '^zero2 ' --model gpt2 --devices 8 --stage=2
answers "checkpoints" '^Save every [0-9]+ s' --model gpt2 --devices 8 --failures 50000
answers "models by name" '^llama3-70b +70553706496 parameters' --list
cat >"$work/model.json" <<'JSON'
{"name": "mine", "layers": 12, "width": 768, "heads": 12,
 "vocabulary": 50257, "context": 1024}
JSON
answers "a model from a file" '"parameters": 124439808,' \
  --model-file "$work/model.json" --devices 8 --format json
cat >"$work/machine.json" <<'JSON'
{"name": "mine", "peak_flops": 1e11, "memory_bytes": 8e9, "memory_bandwidth": 1e10,
 "link_bandwidth": 5e9, "devices_per_node": 2, "latency_us": 1}
JSON
answers "a machine from a file" ' 2 x mine \(7[.]4 GB usable each\), 2 a node' \
  --machine "$work/machine.json" --model gpt2 --devices 2
answers "a machine from a file, but for its memory" '[(]3[.]7 GB usable' \
  --memory 4 --machine "$work/machine.json" --model gpt2 --devices 2
if "$plan" --model gpt2 --devices 8 --format html --output "$work/page.html" &&
  grep -q '</html>' "$work/page.html"; then
  pass
else
  fail "a page"
fi
answers "a picture" '</svg>' --model gpt2 --devices 8 --format svg
answers "a trace" '"name":"gather block 3"' --model gpt2 --devices 8 --stage 3 --format trace
# MPT-7B on 8 H100 did 10643 tokens a second and device: MFU 46.44 % (MosaicML, LLM Foundry).
answers "a measured run" ' 10643 +46[.]4 ' --model mpt-7b --devices 8 --batch 48 --stage 3 \
  --recompute none --bytes fsdp-fp32-reduce --memory 100 \
  --measured devices=8,sequences=6,tokens=10643
refuses "a run that cannot have been" 'No efficiency' --model mpt-7b --measured devices=8,tokens=9e6
refuses "a picture of nothing" 'Nothing fits' --model llama3-405b --devices 8 --format svg
refuses "an unknown model" "--model takes one of .*llama3-70b.*; not 'llama9'" --model llama9
refuses "no devices" 'from 1 to 1000000' --devices 0
refuses "heads that do not divide" 'not divisible by 7 heads' --layers 2 --width 64 --heads 7
refuses "a batch that does not divide" 'not divisible by 8 devices' --devices 8 --batch 12
refuses "a missing file" 'cannot be read' --model-file "$work/none.json"
refuses "a model as a machine" "'layers' in the machine file" --machine "$work/model.json"
refuses "two machines" 'give one of them' --machine "$work/machine.json" --device h100
refuses "an output that cannot be written" 'cannot be written' --output "$work/no/such"
finish
