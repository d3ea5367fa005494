// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Starts a kernel with one thread for each of many pieces of work. Includes base/.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <zero/base/error.hpp>
#include <zero/base/host_device.hpp>

namespace zero::detail {

inline constexpr unsigned block_threads = 256;

/// The number of a thread in its grid: more than 32 bits.
ZERO_HOST_DEVICE constexpr std::uint64_t thread_number(unsigned block, unsigned threads,
                                                       unsigned thread) {
  return std::uint64_t{block} * threads + thread;
}
static_assert(thread_number(0x7FFFFFFF, block_threads, 255) == (std::uint64_t{1} << 39) - 1);

/// Blocks for `threads` threads.
constexpr std::uint64_t blocks_for(std::uint64_t threads) {
  return (threads + block_threads - 1) / block_threads;
}

/// Starts `kernel` with blocks of block_threads; no blocks, no kernel.
///
/// Order:   enqueued on the stream; neither synchronises nor allocates; can be captured.
/// Errors:  CudaError, if the runtime refuses it.
template <class... Parameters>
void launch(const char* called, cudaStream_t stream, std::uint64_t blocks,
            void (*kernel)(Parameters...), const std::type_identity_t<Parameters>&... arguments) {
  if (blocks == 0) return;
  cudaLaunchConfig_t configuration = {};
  configuration.gridDim = dim3(static_cast<unsigned>(blocks));
  configuration.blockDim = dim3(block_threads);
  configuration.stream = stream;
  const cudaError_t error =
      blocks > 0x7FFFFFFF ? cudaErrorInvalidConfiguration
                          : cudaLaunchKernelEx(&configuration, kernel, Parameters(arguments)...);
  if (error == cudaSuccess) return;
  throw CudaError(std::string("zero: ") + called + ": the CUDA runtime refused a kernel of " +
                      std::to_string(blocks) + " blocks: " + cudaGetErrorString(error) +
                      "; check what was called on this device before",
                  static_cast<int>(error));
}

}  // namespace zero::detail
