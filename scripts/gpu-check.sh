#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# On a machine with a GPU: builds the tests of CUDA for it, runs them against the real CUDA runtime
# and NCCL, once more under compute-sanitizer where that is installed, and measures the kernels.
# Needs nvcc of CUDA 13, g++ and NCCL; no Boost, CMake, network or root. Left out are the tests that
# ask the emulator, and those of its sanitizers. Ends with status 2 if something needed is missing.
# usage: scripts/gpu-check.sh [OPTION...]
#   --emulator LIBRARY   runs on libzero_emulator.a, as a machine with one device; no GPU is needed
#   --only NAMES         only these suites, as "norm_test graph_test", and no benchmark
# NVCC, CXX and NCCL_HOME, if set, say where nvcc, the compiler and NCCL are.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
emulator=
only=
while [ $# -gt 0 ]; do
  case $1 in
    --emulator) emulator=$(realpath -e -- "${2:-}") || exit 2 ;;
    --only) only=${2:-} ;;
    *) sed -n 's/^# usage: /usage: /p; s/^#   --/  --/p' "${BASH_SOURCE[0]}" && exit 2 ;;
  esac
  shift $(($# < 2 ? $# : 2))
done

missing() {
  echo "gpu-check: $*"
  exit 2
}

# What runs: each file that says <name>_test is a suite.
suites=()
sources=(tests/main.cpp)
for source in tests/cuda/*.cpp tests/cuda/*.cu; do
  case $source in */race_test.cu | */architectures.cu) continue ;; esac
  grep -q 'emulator/emulator\.hpp' "$source" && continue
  suite=$(basename "${source%.*}")
  if [[ $suite == *_test ]]; then
    [ -z "$only" ] || [[ " $only " == *" $suite "* ]] || continue
    suites+=("$suite")
  fi
  # Takes longest, and is for these.
  [ "$suite" != training ] || [[ " ${suites[*]} " == *" module_test "* ]] || continue
  sources+=("$source")
done
[ ${#suites[@]} -gt 0 ] || missing "no suite of tests/cuda is called so: $only"
[ -n "$only" ] || sources+=(benchmarks/cuda_kernels_bench.cu)

# What is here
cxx=${CXX:-g++}
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
if [ -z "$emulator" ]; then
  gpu=$(nvidia-smi --query-gpu=name,compute_cap,memory.total,driver_version \
    --format=csv,noheader,nounits 2>/dev/null | head -n 1)
  [ -n "$gpu" ] || missing "there is no GPU here, as nvidia-smi lists none: run it on a machine with" \
    "one; scripts/test.sh tests without a GPU."
else
  gpu="emulator, 9.0, 16384, none"
fi
IFS=, read -r name capability memory driver <<<"${gpu//, /,}"
command -v "$nvcc" >/dev/null || missing "nvcc is not here: install the CUDA 13 toolkit, or set NVCC."
command -v "$cxx" >/dev/null || missing "$cxx is not here: install g++ 12 or later, or set CXX."
release=$("$nvcc" --version | grep -o 'release [0-9.]*' | cut -d' ' -f2)
[ "${release%%.*}" -ge 13 ] 2>/dev/null ||
  missing "$nvcc is of CUDA ${release:-unknown}: install the CUDA 13 toolkit, or set NVCC."
cuda=$(dirname "$(dirname "$(realpath "$(command -v "$nvcc")")")")
nccl=()
[ -n "${NCCL_HOME:-}" ] && nccl=(-isystem "$NCCL_HOME/include")
work=build/gpu-check
rm -rf $work
mkdir -p $work
common=(-std=c++20 -Iinclude -Itests -isystem tests/boost_stand_in "${nccl[@]}")
link=(-L"$cuda/lib64" -lcudart -lnccl -Wl,-rpath,"$cuda/lib64")
[ -n "${NCCL_HOME:-}" ] && link+=(-L"$NCCL_HOME/lib" -Wl,-rpath,"$NCCL_HOME/lib")
architecture=(-gencode="arch=compute_${capability/./},code=sm_${capability/./}")
if [ -n "$emulator" ]; then
  link=("$emulator")
  architecture=(-gencode=arch=compute_90,code=compute_90 -no-compress)
  export ZERO_EMULATOR_DEVICES=1
fi
link+=(-ldl -lpthread)
cat >$work/probe.cpp <<'END'
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <cstdio>
int main() {
  int devices = 0, cuda = 0, nccl = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) return std::puts(cudaGetErrorString(error)), 1;
  cudaRuntimeGetVersion(&cuda);
  ncclGetVersion(&nccl);
  std::printf("%d devices, CUDA runtime %d, NCCL %d\n", devices, cuda, nccl);
}
END
"$cxx" "${common[@]}" -isystem "$cuda/include" $work/probe.cpp "${link[@]}" -o $work/probe \
  2>$work/probe.log || missing "a program with CUDA and NCCL cannot be linked: install NCCL, or set" \
  "NCCL_HOME; $work/probe.log says: $(grep -m 1 -E 'error|cannot find' $work/probe.log)"
versions=$($work/probe) || missing "the CUDA runtime finds no device ($versions): is the driver for" \
  "CUDA $release?"
echo "$name, compute capability $capability, driver $driver; nvcc $release; $versions"

compile() {
  local source=$1 object=$2 host=(-O1 -DNDEBUG -ffp-contract=off)
  if [[ $source == *.cu ]]; then
    "$nvcc" -ccbin="$cxx" -fmad=false -lineinfo "${architecture[@]}" "${common[@]}" \
      "${host[@]/#/-Xcompiler=}" -c "$source" -o "$object"
  else
    "$cxx" "${common[@]}" -isystem "$cuda/include" "${host[@]}" -c "$source" -o "$object"
  fi
}
# As many at once as there are cores; one more job tells how far they are.
compile_all() {
  local source pids=() failed=0 pid
  for source in "${sources[@]}"; do
    while [ "$(jobs -rp | wc -l)" -gt "$(nproc)" ]; do wait -n; done
    { compile "$source" "$work/$(basename "$source").o" && echo "compiled $source" ||
      { echo "error: $source does not compile" && false; }; } &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  return $failed
}
build_all() {
  compile_all || return
  local bench=$work/cuda_kernels_bench.cu.o objects=()
  for object in $work/*.o; do [ "$object" = $bench ] || objects+=("$object"); done
  "$cxx" "${objects[@]}" "${link[@]}" -o $work/cuda_tests || return
  [ -n "$only" ] || "$cxx" $bench "${link[@]}" -o $work/cuda_kernels_bench
}
if ! part gpu-check-build "building ${#sources[@]} files for $name" build_all; then
  grep -E 'error' $logs/gpu-check-build.log | head -n 20
  echo "0 passed, 1 failed"
  exit 1
fi

passed=0
failed=0
# check TITLE LOG COMMAND...: a part whose log counts cases as tests/tree/cases.sh does.
check() {
  local title=$1 log=$2 declared_cases passed_cases
  shift 2
  part "$log" "$title" "$@"
  local file=$logs/$log.log
  declared_cases=$(sed -n 's/^zero-cases: declared //p' "$file" | head -n 1)
  passed_cases=$(sed -n 's/^zero-cases: passed //p' "$file" | tail -n 1)
  : "${declared_cases:=1}" "${passed_cases:=0}"
  passed=$((passed + passed_cases))
  failed=$((failed + declared_cases - passed_cases))
  echo "   $passed_cases of $declared_cases cases passed"
  [ "$passed_cases" -eq "$declared_cases" ] || grep -E 'error|ERROR|FAILED' "$file" | head -n 20
  local less
  less=$(grep -c '^zero-devices: ' "$file")
  [ "$less" -eq 0 ] || echo "   $less times ranks were left out, as each needs a device of its own"
}
for suite in "${suites[@]}"; do
  check "$suite" "gpu-check-$suite" timeout -k 5 60 \
    bash tests/tree/run_cases.sh $work/cuda_tests "$suite"
done

# The memory checker, on what launches most kernels in least time
memcheck=${COMPUTE_SANITIZER:-$(command -v compute-sanitizer || echo "$cuda/bin/compute-sanitizer")}
if [ -n "$emulator" ]; then
  echo "-- compute-sanitizer is for real devices only: the emulator checks accesses itself"
elif [ -x "$memcheck" ]; then
  for suite in update_test norm_test; do
    [[ " ${suites[*]} " == *" $suite "* ]] || continue
    check "$suite under compute-sanitizer" "gpu-check-memcheck-$suite" timeout -k 5 40 \
      bash tests/tree/run_cases.sh $work/cuda_tests "$suite" "$memcheck" --error-exitcode=1
  done
else
  echo "-- compute-sanitizer is not here: memory was not checked"
fi

# The benchmark, on fewer elements where the device is small
if [ -z "$only" ]; then
  size=()
  [ "$memory" -ge 20000 ] 2>/dev/null || size=($((1 << 24)))
  [ -z "$emulator" ] || size=(4096 1)
  if part gpu-check-kernels "measuring the kernels" timeout -k 5 60 \
    $work/cuda_kernels_bench "${size[@]}"; then
    passed=$((passed + 1))
    sed -nE 's/.*"kernel": "([^"]*)".*"gb_per_s": ([0-9.]*), "copy_gb_per_s": ([0-9.]*), "ratio_to_copy": ([0-9.]*).*/   \4 of a copy'"'"'s \3 GB\/s: \1/p' \
      $logs/gpu-check-kernels.log
  else
    failed=$((failed + 1))
    tail -n 3 $logs/gpu-check-kernels.log
  fi
fi
echo "$SECONDS s in all on $name"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
