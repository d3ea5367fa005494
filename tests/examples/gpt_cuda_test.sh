#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What gpt_cuda prints and returns, on the emulator's GPUs.
# usage: gpt_cuda_test.sh CUDA TEXT
source "$(dirname "$0")/../tree/cases.sh"
cuda=$1 text=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
declare_cases 4
small=(--layers 1 --width 8 --heads 2 --context 8 --sequences 1 --steps 2 --sample 2 --text "$text")

# ends CODE PATTERN VARIABLE=VALUE... ARGUMENT...: the program returns CODE and prints PATTERN.
ends() {
  local code=$1 pattern=$2 status environment=()
  shift 2
  while [[ $1 == *=* && $1 != --* ]]; do
    environment+=("$1")
    shift
  done
  env "${environment[@]}" "$cuda" "${small[@]}" "$@" >"$folder/out" 2>&1 </dev/null
  status=$?
  if [ $status -eq "$code" ] && grep -qE -e "$pattern" "$folder/out"; then
    pass
  else
    fail "$* returned $status, expected $code and '$pattern' in:"
    tail -n 5 "$folder/out"
  fi
}
ends 0 'by each of 2 ranks' --ranks 2 --captured
ends 2 'There are 8 GPUs, one for each rank, and --ranks is 9' --ranks 9
# As a launcher starts it, if it starts one process.
ends 0 'by each of 1 ranks' RANK=0 WORLD_SIZE=1 --id-file "$folder/id"
[ -e "$folder/id" ] && fail "the id is still there" && passed=$((passed - 1))
ends 2 'There are 1 processes, one for each rank, and --ranks is 2' RANK=0 WORLD_SIZE=1 --ranks 2
finish
