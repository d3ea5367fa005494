// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A communicator whose ranks are threads of one process. Includes comm/detail/shared_memory.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/comm/communicator.hpp>
#include <zero/comm/detail/shared_memory.hpp>

namespace zero {

/// What a caller may choose of a communicator over threads.
struct ThreadOptions {
  /// How long a collective waits for its peers before it fails on all ranks.
  std::chrono::milliseconds time_limit = std::chrono::seconds(30);
};

/// A rank among threads: collectives read the buffers of their peers.
///
/// A copy is another name of the same rank; a rank has left when its last copy is gone and what it
/// enqueued is done, and then peers that wait for it get an error at once. One thread of a rank
/// issues its collectives; any thread may abort.
class ThreadCommunicator : public detail::SharedMemory {
 public:
  using Stream = HostStream;  // on which collectives may be enqueued

  /// All ranks of a new group, by rank.
  ///
  /// Errors: ContractError if `ranks` is 0.
  static std::vector<ThreadCommunicator> make(std::size_t ranks, ThreadOptions options = {}) {
    if (ranks == 0) {
      throw ContractError("ThreadCommunicator::make: 0 ranks. Ask for at least one.");
    }
    const auto world = std::make_shared<detail::World>(ranks, options.time_limit);
    const auto group = std::make_shared<detail::Group>(world, ranks);
    std::vector<ThreadCommunicator> all;
    all.reserve(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      all.push_back(ThreadCommunicator(std::make_shared<detail::Member>(group, rank, rank)));
    }
    return all;
  }

  /// A communicator of the ranks that pass the same color, ordered by key, then by rank.
  /// A collective; blocks.
  ThreadCommunicator split(int color, int key) const {
    return ThreadCommunicator(split_member(color, key));
  }

 private:
  explicit ThreadCommunicator(std::shared_ptr<detail::Member> member)
      : SharedMemory(std::move(member)) {}
};

static_assert(Communicator<ThreadCommunicator>);

}  // namespace zero
