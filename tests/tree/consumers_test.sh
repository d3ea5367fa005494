#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A user's project builds and runs: against an installed tree, with add_subdirectory, and with -I.
# usage: consumers_test.sh SOURCE_DIR BUILD_DIR COMPILER
source "$(dirname "$0")/cases.sh"
top=$1
build=$2
export CXX=$3
consumers=$top/tests/tree/consumers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CMAKE_GENERATOR=Ninja
declare_cases 3

# NAME: runs the function NAME and the program that it built; prints their output if one fails.
consumer() {
  local output
  if output=$($1 2>&1 && "$work/$1/consumer" 2>&1); then pass; else
    fail "$1"
    echo "$output"
  fi
}
installed() {
  cmake --install "$build" --prefix "$work/prefix" &&
    cmake -S "$consumers/installed" -B "$work/installed" -DCMAKE_PREFIX_PATH="$work/prefix" &&
    cmake --build "$work/installed"
}
subdirectory() {
  cmake -S "$consumers/subdirectory" -B "$work/subdirectory" && cmake --build "$work/subdirectory"
}
plain() {
  mkdir "$work/plain" &&
    "$CXX" -std=c++20 -I"$top/include" "$consumers"/{main,other}.cpp -o "$work/plain/consumer"
}
consumer installed
consumer subdirectory
consumer plain
finish
