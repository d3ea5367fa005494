// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The collectives of a rank that may not have ended. Includes comm/detail/{call,history,text}.hpp
// and device/cuda/.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <zero/base/list.hpp>
#include <zero/comm/detail/call.hpp>
#include <zero/comm/detail/history.hpp>
#include <zero/comm/detail/text.hpp>
#include <zero/device/cuda/stream.hpp>

namespace zero::detail {

/// A ring of the latest collectives, each with an event behind it. Nothing is allocated after
/// construction.
class NcclPending {
 public:
  explicit NcclPending(std::size_t capacity) : entries_(std::max<std::size_t>(capacity, 1)) {}
  NcclPending(const NcclPending&) = delete;
  NcclPending& operator=(const NcclPending&) = delete;

  /// Records every event once: the first record makes it.
  void prepare(CudaStream& stream) {
    for (Entry& entry : entries_) stream.record(entry.event);
  }

  /// Notes a collective that `stream` was just given, or will be given at the end of a group.
  void add(const Call& call, std::size_t rank, std::size_t size, std::uint64_t number,
           CudaStream& stream) {
    if (end_ - begin_ == entries_.size()) ++begin_;
    Entry& entry = entries_[end_++ % entries_.size()];
    entry.call = call;
    const std::size_t letters = std::min(call.unit.size(), entry.unit.size());
    std::copy_n(call.unit.data(), letters, entry.unit.data());
    entry.call.unit = std::string_view(entry.unit.data(), letters);
    entry.rank = rank;
    entry.size = size;
    entry.number = number;
    entry.stream = &stream;
  }
  /// Records the events behind all that was added since the last time.
  void record() {
    recorded_ = std::max(recorded_, begin_);
    while (recorded_ < end_) {
      Entry& entry = entries_[recorded_++ % entries_.size()];
      entry.stream->record(entry.event);
    }
  }

  /// Notes those that have ended, up to the first that has not. Returns how many there were so far.
  std::uint64_t advance(History& history) {
    while (begin_ < recorded_) {
      const Entry& entry = entries_[begin_ % entries_.size()];
      const cudaError_t code = cudaEventQuery(entry.event.native());
      if (code != cudaSuccess) {
        cudaGetLastError();  // if it is an error, whoever waits for the stream learns of it
        break;
      }
      history.end(entry.number);
      ++begin_;
    }
    return begin_;
  }

  bool empty() const { return begin_ == end_; }
  /// The first that has not ended: "all_gather(4 x fp32) of unit block.3 on rank 1 of 4".
  std::string text() const {
    const Entry& entry = entries_[begin_ % entries_.size()];
    return text_of(entry.call) + " on rank " + std::to_string(entry.rank) + " of " +
           std::to_string(entry.size);
  }

 private:
  struct Entry {
    Call call;
    std::array<char, 64> unit;
    std::size_t rank, size;  // of its communicator
    std::uint64_t number;    // in the history
    CudaStream* stream;
    CudaEvent event;
  };

  List<Entry> entries_;
  std::uint64_t begin_ = 0, recorded_ = 0, end_ = 0;
};

}  // namespace zero::detail
