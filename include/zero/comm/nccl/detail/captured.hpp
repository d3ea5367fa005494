// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The collectives of one communicator that graphs replay, and how far they came. Includes
// comm/detail/ and device/cuda/.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <zero/base/list.hpp>
#include <zero/comm/nccl/detail/handle.hpp>
#include <zero/device/cuda/memory.hpp>
#include <zero/device/cuda/stream.hpp>

namespace zero::detail {

/// Reads what the device may be writing.
[[gnu::noinline, gnu::no_sanitize_thread]] inline std::uint64_t read_mark(
    const volatile std::uint64_t* mark) {
  return *mark;
}

/// The numbers 1, 2, 3 ... in memory of the device, for marks.
class NcclNumbers {
 public:
  NcclNumbers(int ordinal, std::size_t count)
      : count_(count), block_(CudaMemory(ordinal), count * sizeof(std::uint64_t)) {
    List<std::uint64_t> numbers(count);
    for (std::size_t i = 0; i < count; ++i) numbers[i] = i + 1;
    check_cuda(cudaMemcpy(block_.data(), numbers.data(), count * sizeof(std::uint64_t),
                          cudaMemcpyHostToDevice),
               "cudaMemcpy");
  }
  std::size_t count() const { return count_; }
  const std::byte* at(std::size_t index) const {
    return block_.data() + index * sizeof(std::uint64_t);
  }

 private:
  std::size_t count_;
  Block<CudaMemory> block_;
};

/// Behind each collective that is captured comes a copy of its number to the host: a graph has no
/// events that the host could ask. These copies follow each other in the order of the collectives,
/// also from stream to stream. Only captures allocate.
class NcclCaptured {
 public:
  explicit NcclCaptured(const NcclNumbers& numbers)
      : numbers_(numbers), mark_(PinnedMemory(), sizeof(std::uint64_t)) {
    std::memset(mark_.data(), 0, sizeof(std::uint64_t));
  }

  /// Notes a collective that `stream` has captured.
  void add(const Call& call, CudaStream& stream) {
    unsigned long long capture = 0;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check_cuda(cudaStreamGetCaptureInfo(stream.native(), &status, &capture),
               "cudaStreamGetCaptureInfo");
    if (entries_.size() < numbers_.count()) entries_.push_back({text_of(call), capture, &stream});
  }
  /// Lets the graph tell when those noted since the last time have ended.
  void mark() {
    for (; marked_ < entries_.size(); ++marked_) {
      const Entry& entry = entries_[marked_];
      if (marked_ > 0 && entries_[marked_ - 1].capture == entry.capture)
        entry.stream->wait(behind_);
      check_cuda(cudaMemcpyAsync(mark_.data(), numbers_.at(marked_), sizeof(std::uint64_t),
                                 cudaMemcpyDeviceToHost, entry.stream->native()),
                 "cudaMemcpyAsync");
      entry.stream->record(behind_);
    }
  }

  bool empty() const { return entries_.empty(); }
  /// The number of the last that has ended, 0 for none.
  std::uint64_t done() const {
    return read_mark(reinterpret_cast<const std::uint64_t*>(mark_.data()));
  }
  /// The collective that comes next, in a graph that is replayed.
  const std::string& next_text() const { return entries_[next()].text; }

 private:
  struct Entry {
    std::string text;
    unsigned long long capture;
    CudaStream* stream;
  };

  /// Of a graph that has ended, the first again. Pre: !empty().
  std::size_t next() const {
    const std::uint64_t ended = done();
    if (ended == 0) return 0;
    const unsigned long long capture = entries_[ended - 1].capture;
    if (ended < entries_.size() && entries_[ended].capture == capture) return ended;
    std::size_t first = ended - 1;
    while (first > 0 && entries_[first - 1].capture == capture) --first;
    return first;
  }

  const NcclNumbers& numbers_;
  Block<PinnedMemory> mark_;
  List<Entry> entries_;
  std::size_t marked_ = 0;
  CudaEvent behind_;  // the last copy
};

}  // namespace zero::detail
