#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Processes over MPI train to the bits of threads, in every stage.
# usage: gpt_mpi_test.sh TRAIN MPI TEXT
source "$(dirname "$0")/../tree/cases.sh"
run="$(dirname "$0")/../mpi/run.sh"
train=$1 mpi=$2 text=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
declare_cases 6

# same NAME RANKS OPTION...: both programs write the same losses, each of them another.
same() {
  local name=$1 ranks=$2
  shift 2
  local options=(--layers 2 --width 16 --heads 2 --context 16 --text "$text" --sample 20 "$@")
  if "$train" --ranks "$ranks" "${options[@]}" --losses "$folder/threads" >"$folder/out" 2>&1 &&
    bash "$run" "$ranks" "$mpi" "${options[@]}" --losses "$folder/mpi" >>"$folder/out" 2>&1 &&
    cmp "$folder/threads" "$folder/mpi" && [ "$(sort -u "$folder/mpi" | grep -c '^0x')" -eq 5 ]; then
    pass
  else
    fail "$name"
    tail -n 20 "$folder/out"
    paste "$folder/threads" "$folder/mpi"
  fi
  rm -f "$folder"/*
}
for stage in 0 1 2 3; do
  same "stage $stage" 4 --stage $stage --steps 5
done
same "micro-steps" 3 --stage 3 --steps 5 --micro-steps 2 --streams inline

# What goes wrong is said by a rank, and no process is left.
if bash "$run" 2 "$mpi" --losses "$folder/none/losses" --text "$text" --layers 1 --width 16 \
  --context 16 --steps 1 >"$folder/out" 2>&1; then
  fail "a file that cannot be written"
elif grep -q 'gpt_mpi: The losses cannot be written' "$folder/out"; then
  pass
else
  fail "$(cat "$folder/out")"
fi
finish
