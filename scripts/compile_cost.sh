#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the schedule headers, proofs and the quickstart cost to compile: CPU seconds (least of 3) and peak memory.
# usage: scripts/compile_cost.sh [COMPILER...]      without arguments: g++ clang++
cd "$(dirname "$0")/.." || exit 2
[ $# -gt 0 ] || set -- g++ clang++
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

one() { # compiler, text of a file, options: prints "seconds MB"
  local options=(-std=c++20 -Iinclude -I. "${@:3}")
  case $1 in
    *clang*) options+=(-fconstexpr-steps=2000000000) ;;
    *) options+=(-fconstexpr-ops-limit=2000000000) ;;
  esac
  printf '%b\n' "$2" >"$work/file.cpp"
  for _ in 1 2 3; do
    if ! /usr/bin/time -o "$work/time" -f '%U %S %M' "$1" "${options[@]}" "$work/file.cpp"; then
      echo "$1 cannot compile: $2" >&2
      return 1
    fi
    awk 'END { printf "%.2f s %4d MB\n", $1 + $2, $3 / 1024 }' "$work/time"
  done | sort -n | head -1
}
row() { # name, text, options instead of -fsyntax-only
  printf '%-44s' "$1"
  local options=("${@:3}")
  [ $# -gt 2 ] || options=(-fsyntax-only)
  for compiler in "${compilers[@]}"; do
    printf '  %16s' "$(one "$compiler" "$2" "${options[@]}")"
  done
  echo
}
compilers=("$@")
proof='#include <zero/policy/proof.hpp>\nusing namespace zero;\n'
printf '%-44s' ""
printf '  %16s' "$@"
echo
row "<vector>" '#include <vector>'
row "schedule headers        (goal: 0.3 s)" "$proof"
row "+ proven<Zero3>         (goal: + 0.3 s)" "${proof}static_assert(proven<Zero3>);"
row "+ the five named stages" "${proof}static_assert(proven<Ddp> && proven<Zero1> && \
proven<Zero2> && proven<Zero3> && proven<Hybrid>);"
for units in 96 512; do
  row "one proof of Zero3 with $units units" \
    "${proof}static_assert(finding<Zero3, $units>.rule == Rule::none);"
done
row "zero.hpp alone          (goal: 0.8 s)" '#include <zero/zero.hpp>'
for level in -O0 -O1 -O3; do
  row "the quickstart with $level" '#include "examples/01_quickstart.cpp"' "$level" -c -o /dev/null
done
