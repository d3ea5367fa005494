// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Runs kernels from the PTX that nvcc embeds in an object. Includes the toolkit's headers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>

namespace emulator {

/// A kernel did what it must not: its text says the kernel, the block, the thread, the instruction
/// and what was wrong. Blocks and instructions before it have had their effect.
class KernelFault : public std::runtime_error {
 public:
  KernelFault(cudaError_t error, const std::string& text)
      : std::runtime_error(text), error_(error) {}
  /// What CUDA would say.
  cudaError_t error() const { return error_; }

 private:
  cudaError_t error_;
};

/// The run of a kernel whose PTX is in `fatbin`, the data of a wrapped fat binary. The arguments
/// are copied at once. What is returned may be called any number of times, on any thread; it throws
/// a KernelFault where the kernel goes wrong or needs an instruction that is not known here. It is
/// empty if the fat binary has no such kernel.
///
/// Memory that the kernel loads, stores and changes is accessed by plain (or, where the kernel asks
/// for it, atomic) instructions of this thread, so that sanitizers see it, and is checked by
/// emulator::valid_access. The threads of a warp go together as far as they can; blocks run one
/// after the other.
///
/// Errors:  std::runtime_error for text that is no PTX, and for PTX that was compressed.
std::function<void()> ptx_launch(const void* fatbin, const char* kernel, dim3 grid, dim3 block,
                                 std::size_t shared_bytes, void** arguments);

/// The same for PTX text.
std::function<void()> ptx_launch_text(const std::string& text, const char* kernel, dim3 grid,
                                      dim3 block, std::size_t shared_bytes, void** arguments);

/// Where a __device__ or __constant__ variable of a fat binary lies, and its size in bytes; null if
/// there is none of that name.
void* ptx_variable(const void* fatbin, const std::string& name, std::size_t* bytes);

}  // namespace emulator
