#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# zero-bench measures each of its parts, and zero-plan reads the machine that it describes.
# usage: zero_bench_test.sh ZERO_BENCH ZERO_PLAN [STARTS_PROCESSES]
source "$(dirname "$0")/../tree/cases.sh"
bench=$1 plan=$2 launcher=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
declare_cases $((12 + (${#launcher} > 0)))

# refuses TITLE PATTERN ARGUMENT...: exits with 2, prints nothing, and one sentence as its error.
refuses() {
  local title=$1 pattern=$2 status=0
  shift 2
  "$bench" "$@" >"$work/out" 2>"$work/err" || status=$?
  if [ $status = 2 ] && [ ! -s "$work/out" ] && [ "$(wc -l <"$work/err")" = 1 ] &&
    grep -qE -- "^zero-bench: .*$pattern.*\.\$" "$work/err"; then
    pass
  else
    fail "$title: exit status $status"
    cat "$work/out" "$work/err"
  fi
}
refuses "an unknown option" 'is not an option' --fast
refuses "an unknown part" 'not .network' --only network
refuses "no value" 'needs a value' --json
refuses "three ranks" 'takes 2 or 4' --ranks 3
refuses "no time" 'from 0.001 to 60' --seconds 0
refuses "heads that do not divide" 'not divisible by 7 heads' --width 64 --heads 7
refuses "a machine of one part" 'needs all parts' --only host --machine "$work/machine.json"
refuses "a file that cannot be written" 'cannot be written' --quick --svg "$work/no/such"

if "$bench" --quick --json "$work/all.json" --svg "$work/all.svg" \
  --machine "$work/machine.json" >"$work/table" 2>"$work/err" && [ ! -s "$work/err" ]; then
  pass
else
  fail "a quick run"
  cat "$work/table" "$work/err"
fi
# Eight collectives, two kernels, three of the host, three depths, two of the tax, three of the machine.
rows=$(grep -c '"ratio": ' "$work/all.json")
limits=$(grep -c '"ratio": 0\.[0-9]*[1-9]\|"ratio": [1-9]' "$work/all.json")
[ "$rows $limits" = "21 18" ] && pass || fail "$rows rows, of which $limits have a limit"
[ "$(grep -c '</svg>' "$work/all.svg")" = 1 ] &&
  [ "$(grep -o '<rect x' "$work/all.svg" | wc -l)" = 18 ] && pass || fail "a picture"
if "$plan" --machine "$work/machine.json" --model gpt2 --devices 2 --bytes fp32-16 |
  grep -q ' 2 x this machine '; then
  pass
else
  fail "a machine for zero-plan"
  cat "$work/machine.json"
fi
# Under MPI, where it is: three collectives of two processes.
if [ -n "$launcher" ]; then
  if bash "$launcher" 2 "$bench" --quick --json "$work/mpi.json" >"$work/table" 2>&1 &&
    [ "$(grep -c '"unit": "GB/s"' "$work/mpi.json")" = 3 ]; then
    pass
  else
    fail "two processes"
    cat "$work/table"
  fi
fi
finish
