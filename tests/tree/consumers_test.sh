#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A user's project builds and runs in each way in which zero can be taken in: an installed tree that
# was moved, found by find_package or pkg-config; add_subdirectory; FetchContent; -I; a Makefile.
# usage: consumers_test.sh SOURCE_DIR BUILD_DIR COMPILER [CLANG [NVCC]]     "" for what is not here
source "$(dirname "$0")/cases.sh"
top=$1
build=$2
export CXX=$3
clang=${4:-}
nvcc=${5:-}
consumers=$top/tests/tree/consumers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CMAKE_GENERATOR=Ninja
export PKG_CONFIG_PATH=$work/prefix/share/pkgconfig

# NAME [PROGRAM]: runs the function NAME and the program that it built; prints their output if one
# fails.
consumer() {
  local output
  if output=$($1 2>&1 && "$work/$1/${2:-consumer}" 2>&1); then pass; else
    fail "$1"
    echo "$output"
  fi
}
project() { # NAME OPTION...
  local name=$1
  shift
  cmake -S "$consumers/$name" -B "$work/$name" "$@" && cmake --build "$work/$name"
}
installed() {
  cmake --install "$build" --prefix "$work/first" && mv "$work/first" "$work/prefix" &&
    project installed -DCMAKE_PREFIX_PATH="$work/prefix"
}
subdirectory() { project subdirectory; }
fetched() { project fetched; }
plain() {
  mkdir "$work/plain" &&
    "${clang:-$CXX}" -std=c++20 -I"$top/include" "$consumers"/{main,other}.cpp -pthread \
      -o "$work/plain/consumer"
}
pkg_config() {
  mkdir "$work/pkg_config" && pkg-config --atleast-version=0.1 zero &&
    "${clang:-$CXX}" -std=c++2b "$consumers"/{main,other}.cpp $(pkg-config --cflags --libs zero) \
      -o "$work/pkg_config/consumer"
}
makefile() {
  mkdir "$work/makefile" &&
    PATH=$(dirname "$nvcc"):$PATH make -C "$work/makefile" -f "$consumers/cuda/Makefile" \
      SOURCES="$consumers/cuda/"
}

# On a machine where nothing is found that zero can do without.
bare() {
  cmake -S "$top" -B "$work/bare" -DZERO_BUILD_{TESTS,BENCHMARKS}=OFF \
    -DCMAKE_IGNORE_PATH="/usr/include;/usr/local/include" \
    -DCMAKE_DISABLE_FIND_PACKAGE_{CUDAToolkit,MPI}=ON &&
    cmake --build "$work/bare" --target zero-info &&
    ln -s tools/zero-info "$work/bare/consumer"
}

names=(installed subdirectory fetched plain bare)
command -v pkg-config >/dev/null && names+=(pkg_config)
[ -n "$nvcc" ] && command -v make >/dev/null && names+=(makefile)
declare_cases ${#names[@]}
for name in "${names[@]}"; do consumer "$name"; done
finish
