#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a suite of a Boost.Test program: each case that it declares, also a disabled one, must run
# and pass.
# usage: run_cases.sh PROGRAM SUITE [LAUNCHER...]      the launcher starts it, in several processes
source "$(dirname "$0")/cases.sh"
program=$1
suite=$2
unset "${!BOOST_TEST_@}"

if [ ! -x "$program" ]; then
  declare_cases 1
  fail "$program was not built"
  finish
fi

# --list_content prints suites and cases as an indented tree; the cases are its leaves.
tree=$("$program" --list_content 2>&1 |
  awk -v suite="$suite" '/^[^ ]/ { inside = $1 == suite || $1 == suite "*" } inside')
declare_cases "$(awk '{ match($0, /^ */); n += NR > 1 && RLENGTH <= depth; depth = RLENGTH }
                      END { print n + (NR > 0) }' <<<"$tree")"
if [ -z "$tree" ]; then
  fail "$program has no suite called $suite"
  declared=1
  finish
fi

report=$(mktemp)
trap 'rm -f "$report"' EXIT
"${@:3}" "$program" --run_test="$suite" --catch_system_errors=no --color_output=no \
  --log_level=test_suite --report_level=short --report_format=XML --report_sink="$report" </dev/null
status=$?
for attribute in test_cases_passed test_cases_passed_with_warnings; do
  count=$(grep -o " $attribute=\"[0-9]*\"" "$report" | grep -o '[0-9]*')
  passed=$((passed + ${count:-0}))
done
# A sanitizer reports at the end of a program too, when all of its cases have passed.
if [ $status -ne 0 ] && [ "$passed" -eq "$declared" ]; then
  fail "all cases passed, but the program ended with status $status"
  passed=$((passed - 1))
fi
finish
