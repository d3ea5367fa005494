#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a program that checks itself (an example, a benchmark) as one case.
# usage: run_program.sh PROGRAM ARGUMENT...
source "$(dirname "$0")/cases.sh"
declare_cases 1
# Google Benchmark reports an error in its table only.
if output=$("$@" </dev/null 2>&1) && ! grep -q 'ERROR OCCURRED' <<<"$output"; then
  pass
else
  echo "$output"
  fail "$*"
fi
finish
