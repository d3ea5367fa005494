#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the benchmarks, runs them one after the other, and keeps each one's table and JSON under
# build/bench/results. Installs the Debian packages that are missing.
# usage: scripts/bench.sh [ARGUMENT...]     arguments are those of Google Benchmark
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_packages g++ cmake ninja-build libbenchmark-dev libopenblas-dev
build bench || exit 1
results=build/bench/results
mkdir -p $results
status=0
for program in build/bench/benchmarks/*_bench; do
  name=$(basename "$program")
  echo "-- $name"
  "$program" --benchmark_counters_tabular=true --benchmark_out="$results/$name.json" "$@" |
    tee "$results/$name.txt" || status=1
done
echo "tables and JSON are in $results"
exit $status
