#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Passes on those headers of the library whose third-party headers are here, and says what it leaves
# out.
# usage: present.sh "COMPILER OPTION..." <HEADERS
compile=$1
headers=$(cat)
# needs THIRD_PARTY_HEADER PATTERN: headers that match need it.
needs() {
  echo "#include <$1>" >"$work/probe.cpp"
  if grep -qE "$2" <<<"$headers" && ! $compile -E "$work/probe.cpp" -o /dev/null 2>/dev/null; then
    echo "Not compiled, as $1 is not here: $(grep -E "$2" <<<"$headers" | paste -sd' ')" >&2
    headers=$(grep -vE "$2" <<<"$headers")
  fi
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
needs nccl.h '^zero/cuda\.|/cuda/|/nccl/'
needs mpi.h '^zero/mpi\.|/mpi/'
echo "$headers"
