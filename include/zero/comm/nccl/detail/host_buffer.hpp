// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Memory that collectives of the host go through. Includes comm/detail/call.hpp and device/cuda/.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <zero/comm/detail/call.hpp>
#include <zero/comm/nccl/detail/captured.hpp>
#include <zero/device/cuda/device.hpp>
#include <zero/device/cuda/memory.hpp>

namespace zero::detail {

/// What the communicators of a rank share on its device: a stream, and a block of device memory
/// with a twin that is pinned in the host's. What is too large goes through them in several parts,
/// each the size that all ranks agree on.
class NcclHostBuffer {
 public:
  NcclHostBuffer(const CudaDeviceOptions& options, std::size_t bytes, std::size_t numbers)
      : numbers_(options.ordinal, numbers),
        pinned_(PinnedMemory(), bytes),
        memory_(CudaMemory(options.ordinal), bytes),
        device_(options),
        stream_(device_.make_stream("collectives of the host")) {}

  const NcclNumbers& numbers() const { return numbers_; }
  CudaStream& stream() { return stream_; }
  int ordinal() const { return device_.ordinal(); }
  CudaMemory memory() const { return device_.memory(); }

  /// Runs a collective on memory of the host. `issue(in, out, count)` enqueues it, on the device,
  /// for so many elements.
  template <class Issue>
  void run(const Call& call, std::size_t rank, std::size_t ranks, const Issue& issue) {
    const std::size_t parts =
        call.collective == Collective::all_gather || call.collective == Collective::reduce_scatter
            ? ranks
            : 1;
    const std::size_t most = memory_.bytes() / size_of(call.type) / parts;
    try {
      for (std::size_t begin = 0; begin < call.count; begin += most) {
        run(call, rank, ranks, issue, begin, std::min(most, call.count - begin));
      }
    } catch (...) {
      stream_.settle();  // the next one writes where this one may still read
      throw;
    }
  }

 private:
  template <class Issue>
  void run(const Call& call, std::size_t rank, std::size_t ranks, const Issue& issue,
           std::size_t begin, std::size_t count) {
    const bool gathers = call.collective == Collective::all_gather;
    const bool scatters = call.collective == Collective::reduce_scatter;
    const std::size_t size = size_of(call.type), bytes = count * size;
    const std::size_t in_parts = scatters ? ranks : 1, out_parts = gathers ? ranks : 1;
    // In place: the smaller of the two is this rank's part of the larger.
    const std::size_t in = gathers ? rank * bytes : 0, out = scatters ? rank * bytes : 0;
    for (std::size_t part = 0; part < in_parts; ++part) {
      std::memcpy(pinned_.data() + in + part * bytes,
                  static_cast<const std::byte*>(call.in) + (part * call.count + begin) * size,
                  bytes);
    }
    copy(memory_.data() + in, pinned_.data() + in, in_parts * bytes, cudaMemcpyHostToDevice);
    issue(memory_.data() + in, memory_.data() + out, count);
    copy(pinned_.data() + out, memory_.data() + out, out_parts * bytes, cudaMemcpyDeviceToHost);
    stream_.synchronize();
    for (std::size_t part = 0; part < out_parts; ++part) {
      std::memcpy(static_cast<std::byte*>(call.out) + (part * call.count + begin) * size,
                  pinned_.data() + out + part * bytes, bytes);
    }
  }

  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    check_cuda(cudaMemcpyAsync(to, from, bytes, kind, stream_.native()), "cudaMemcpyAsync");
  }

  NcclNumbers numbers_;
  Block<PinnedMemory> pinned_;
  Block<CudaMemory> memory_;
  CudaDevice device_;  // its end waits for what uses the memory
  CudaStream& stream_;
};

}  // namespace zero::detail
