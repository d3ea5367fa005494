#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# zero-info prints its parts, as text and as JSON, also where launchers contradict each other.
# usage: info_test.sh PROGRAM
source "$(dirname "$0")/cases.sh"
program=$1
declare_cases 9
says() { # SENTENCE COMMAND...
  local sentence=$1 output
  shift
  if output=$("$@" 2>&1) && [[ $output == *"$sentence"* ]]; then pass; else
    fail "$*: not said: $sentence"
    echo "$output"
  fi
}
says "NCCL_DEBUG: INFO" env NCCL_DEBUG=INFO "$program"
says '"rank":"1","size":"4"' env RANK=1 WORLD_SIZE=4 "$program" --json
says '"OMPI_MCA_btl":"self"' env OMPI_MCA_btl=self UNRELATED_btl=2 "$program" --json
says "ModuleOptions::time_limit: 30000 ms" "$program"
says "CUDA driver, up to CUDA: " "$program"
# What has nothing to do with it is not told to whom the output is sent.
if UNRELATED_btl=2 "$program" | grep -q UNRELATED; then fail "a variable of others is shown"; else
  pass
fi
says "contradict" env RANK=1 WORLD_SIZE=4 PMI_RANK=2 PMI_SIZE=4 "$program" --json
says "usage" "$program" --help
if ! output=$("$program" --jsno 2>&1) && [[ $output == *"only option is --json"* ]]; then pass; else
  fail "--jsno: $output"
fi
finish
