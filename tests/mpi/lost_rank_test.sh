#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A process that is killed is named by all others within the time limit, with the unit and position
# that wait for it. By Open MPI, whose launcher can leave the others alive.
# usage: lost_rank_test.sh PROGRAM
source "$(dirname "$0")/../tree/cases.sh"
declare_cases 1
export OMPI_MCA_orte_enable_recovery=1 ZERO_MPI_SECONDS=60 ZERO_MPI_SHOW_ALL=1
output=$(bash "$(dirname "$0")/run.sh" 3 "$1" 2>&1)
words='all_reduce(1 x fp32) of unit block.3 at schedule position 17'
if grep -q "^rank 0 learned: $words on rank 0 of 3.*: rank 2 did not call it within" <<<"$output" &&
  grep -q "^rank 1 learned: $words on rank 1 of 3.*: rank 2 did not call it within" <<<"$output"; then
  pass
else
  fail "$output"
fi
finish
