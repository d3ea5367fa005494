// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How communicators over NCCL are made and watched. Includes base/, comm/detail/world.hpp and NCCL.
#pragma once

#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <zero/comm/detail/world.hpp>

namespace zero {

/// What happens to communicators when one of them fails or is late.
enum class NcclFailure : std::uint8_t {
  abort,  ///< ncclCommAbort: their work ends and they are freed
  /// ncclCommRevoke: their work ends, and NcclCommunicator::shrink can make others of them. Where
  /// NCCL is older than 2.28.9 they are aborted all the same.
  revoke
};

/// What ranks that are threads of one process tell each other besides NCCL: failures at once, and
/// what each of them did last. Pass the same one to all.
class NcclBoard {
 public:
  /// A board for so many ranks.
  explicit NcclBoard(std::size_t ranks)
      : world_(std::make_shared<detail::World>(ranks, std::chrono::milliseconds(0))) {}

  /// What the ranks write on.
  const std::shared_ptr<detail::World>& world() const { return world_; }

 private:
  std::shared_ptr<detail::World> world_;
};

/// What a caller may choose of a communicator over NCCL.
struct NcclOptions {
  /// Of each wait of the host for other ranks, counted from the last sign of life.
  std::chrono::milliseconds time_limit = std::chrono::seconds(30);
  /// NCCL's own options: minCTAs, maxCTAs, CTAPolicy, splitShare, commName and so on, as far as its
  /// version has them. `blocking` is always 0, so that a time limit can hold. Unused by adopt().
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  NcclFailure on_failure = NcclFailure::abort;  // what becomes of the communicators
  /// Bytes of pinned and of device memory, each, that collectives of the host go through.
  std::size_t host_buffer_bytes = 256 * 1024;
  /// Collectives that are followed until their end, so that an error can name the first that is
  /// late. Older ones are named no more.
  std::size_t followed = 256;
  /// The same of those that graphs replay, for each communicator: a copy of 8 bytes behind each
  /// lets the host know. 0 for none.
  std::size_t followed_in_graphs = 4096;
  /// Of ranks that are threads of one process; otherwise null.
  const NcclBoard* board = nullptr;
};

}  // namespace zero
