#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts a program as several processes that MPI connects, on this machine alone: as root, with more
# processes than cores, in a container, without ssh. What all but rank 0 print is dropped, unless
# ZERO_MPI_SHOW_ALL is set.
# usage: run.sh RANKS PROGRAM ARGUMENT...
if [ "$1" = rank ]; then # as one of the processes
  shift
  if [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" -eq 0 ] || [ -n "${ZERO_MPI_SHOW_ALL:-}" ]; then exec "$@"; fi
  exec "${@/#--report_sink=*/--report_sink=/dev/null}" >/dev/null
fi
ranks=$1
shift
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_plm_rsh_agent=sh OMPI_MCA_btl=self,vader
export OMPI_MCA_btl_vader_single_copy_mechanism=none PMIX_MCA_gds=hash
here=$(dirname "${BASH_SOURCE[0]}")
export LSAN_OPTIONS=${LSAN_OPTIONS:+$LSAN_OPTIONS:}suppressions=$here/leaks.txt:print_suppressions=0
# The launcher ends its processes when it is ended, but not when it is killed.
exec timeout -k 10 "${ZERO_MPI_SECONDS:-500}" "${ZERO_MPIEXEC:-mpirun}" -n "$ranks" \
  bash "${BASH_SOURCE[0]}" rank "$@"
