// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// CudaStore: where a module of a CUDA device keeps optimizer state that is offloaded. May include
// device/ and module/.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <zero/base/error.hpp>
#include <zero/device/cuda/device.hpp>
#include <zero/module/options.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero::detail {

/// A block of pinned memory of the host; see HostStore. What fails is an error of the device.
class CudaStore {
 public:
  CudaStore() = default;
  CudaStore(const CudaStore&) = delete;
  CudaStore& operator=(const CudaStore&) = delete;

  void open(StateHome home, std::uint64_t bytes, const OffloadPlace&, const std::string&) {
    if (home == StateHome::here) return;
    if (home == StateHome::file) {
      throw ContractError(
          "zero::shard: the stage keeps optimizer state in a file, which a module on a CUDA device "
          "cannot; use zero::OffloadOptimizer<zero::InHostMemory>");
    }
    bytes_ = bytes;
    block_.emplace(PinnedMemory(), static_cast<std::size_t>(bytes));
    std::memset(block_->data(), 0, block_->bytes());
  }
  std::uint64_t bytes() const { return bytes_; }
  std::byte* data() const { return block_ ? block_->data() : nullptr; }
  std::span<const std::byte> data_span() const {
    return {data(), block_ ? block_->bytes() : std::size_t{0}};
  }

  /// A captured step counts its bytes when it is captured, not when it runs.
  void fetch(CudaStream& stream, std::byte* to, std::uint64_t at, std::size_t bytes) {
    copy(stream, to, data() + at, bytes, cudaMemcpyHostToDevice);
    fetched_ += bytes;
  }
  void store(CudaStream& stream, const std::byte* from, std::uint64_t at, std::size_t bytes) {
    copy(stream, data() + at, from, bytes, cudaMemcpyDeviceToHost);
    stored_ += bytes;
  }
  void read(std::byte* to, std::uint64_t at, std::size_t bytes) const {
    std::memcpy(to, data() + at, bytes);
  }
  void write(const std::byte* from, std::uint64_t at, std::size_t bytes) {
    std::memcpy(data() + at, from, bytes);
  }
  std::uint64_t fetched() const { return fetched_; }
  std::uint64_t stored() const { return stored_; }

  bool failed() const { return false; }
  std::string error() const { return {}; }
  void forget() {}

 private:
  static void copy(CudaStream& stream, void* to, const void* from, std::size_t bytes,
                   cudaMemcpyKind kind) {
    check_cuda(cudaMemcpyAsync(to, from, bytes, kind, stream.native()), "cudaMemcpyAsync");
  }

  std::uint64_t bytes_ = 0, fetched_ = 0, stored_ = 0;
  std::optional<Block<PinnedMemory>> block_;
};

}  // namespace zero::detail
