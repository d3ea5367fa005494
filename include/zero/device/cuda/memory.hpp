// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Memory of a CUDA device, and pinned memory of the host. Includes device/memory.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <zero/base/error.hpp>
#include <zero/device/cuda/detail/check.hpp>
#include <zero/device/memory.hpp>

namespace zero {

namespace detail {

inline constexpr std::size_t cuda_alignment = 256;

inline void check_alignment(const char* source, std::size_t alignment) {
  if (alignment <= cuda_alignment) return;
  throw ContractError(std::string(source) + "::allocate: alignment is " +
                      std::to_string(alignment) + " bytes, at most " +
                      std::to_string(cuda_alignment) + " are possible; ask for less");
}

/// "CudaMemory::allocate (cudaMalloc) of 4096 bytes, of which the device has 100 free".
inline std::string text_of_allocation(const char* call, std::size_t bytes) {
  std::size_t free_bytes = 0, total = 0;
  std::string text = std::string(call) + " of " + std::to_string(bytes) + " bytes";
  if (cudaMemGetInfo(&free_bytes, &total) == cudaSuccess) {
    text += " on a device with " + std::to_string(free_bytes) + " of " + std::to_string(total) +
            " bytes free";
  }
  return text;
}

}  // namespace detail

/// Memory of a device by cudaMalloc. Waits for the device when memory is returned, as cudaFree
/// does.
class CudaMemory {
 public:
  /// Of the device that is current in the thread that allocates.
  CudaMemory() = default;
  explicit CudaMemory(int ordinal) : ordinal_(ordinal) {}

  /// Memory of the current device.
  void* allocate(std::size_t bytes, std::size_t alignment = memory_alignment) {
    detail::check_alignment("CudaMemory", alignment);
    const detail::CurrentDevice device(ordinal_ < 0 ? detail::current_device() : ordinal_);
    void* pointer = nullptr;
    const cudaError_t code = cudaMalloc(&pointer, std::max<std::size_t>(bytes, 1));
    if (code != cudaSuccess) {
      detail::raise_cuda(code,
                         detail::text_of_allocation("CudaMemory::allocate: cudaMalloc", bytes));
    }
    return pointer;
  }

  /// Gives it back.
  void deallocate(void* pointer, std::size_t) noexcept {
    if (cudaFree(pointer) != cudaSuccess) cudaGetLastError();
  }

 private:
  int ordinal_ = -1;
};

static_assert(Memory<CudaMemory>);

/// Memory of the host that devices copy from and to asynchronously, by cudaHostAlloc.
class PinnedMemory {
 public:
  /// Memory of the host that a device can copy from and to.
  void* allocate(std::size_t bytes, std::size_t alignment = memory_alignment) {
    detail::check_alignment("PinnedMemory", alignment);
    void* pointer = nullptr;
    const cudaError_t code =
        cudaHostAlloc(&pointer, std::max<std::size_t>(bytes, 1), cudaHostAllocPortable);
    if (code != cudaSuccess) {
      detail::raise_cuda(
          code, "PinnedMemory::allocate: cudaHostAlloc of " + std::to_string(bytes) + " bytes");
    }
    return pointer;
  }

  /// Gives it back.
  void deallocate(void* pointer, std::size_t) noexcept {
    if (cudaFreeHost(pointer) != cudaSuccess) cudaGetLastError();
  }
};

static_assert(Memory<PinnedMemory>);

}  // namespace zero
