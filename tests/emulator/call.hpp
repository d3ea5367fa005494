// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What every entry point does around its own part: counts, faults, sticky errors, the last error.
#pragma once

#include <optional>

#include "state.hpp"

namespace emulator {

/// What a call does when it meets an error that was there before.
enum class Kind {
  uses,      ///< Fails if its device has a sticky error.
  asks,      ///< Works all the same; what synchronises returns the error at its end.
  destroys,  ///< As `asks`; also does its work when it is made to fail, as nothing may leak.
};

/// Counts a call, and returns the fault that it shall fail with, if any.
std::optional<CallFault> begin_call(const char* function);
/// Whether this thread runs a function of cudaLaunchHostFunc, which must not call CUDA or NCCL.
bool& in_host_function();
/// The sticky error of the calling thread's device, or of `device`.
cudaError_t sticky_error();
cudaError_t sticky_error(int device);
/// Keeps `error` for cudaGetLastError and returns it.
cudaError_t remember(cudaError_t error);

/// Runs the body of an entry point of the CUDA runtime.
template <class Function>
cudaError_t call(const char* name, Kind kind, Function function) {
  if (in_host_function()) return cudaErrorNotPermitted;
  Hidden hidden;
  const auto fault = begin_call(name);
  if (fault && kind != Kind::destroys) return remember(fault->cuda);
  if (kind == Kind::uses) {
    if (const cudaError_t error = sticky_error(); error != cudaSuccess) return remember(error);
  }
  cudaError_t error = cudaSuccess;
  try {
    error = function();
  } catch (const CudaFailure& failure) { error = failure.error; }
  return remember(fault ? fault->cuda : error);
}

}  // namespace emulator
