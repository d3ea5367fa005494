// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The few bytes by which ranks find each other, and how they go round by a communicator that they
// have already. Includes the standard library only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace zero {

/// What rank 0 makes and all ranks need: room for an ncclUniqueId.
using LaunchBlob = std::array<std::byte, 128>;

/// The blob of rank 0, on all ranks of a communicator in host memory: threads or MPI. A collective;
/// blocks.
template <class Comm>
LaunchBlob share_by(const Comm& comm, const LaunchBlob& mine) {
  std::array<std::uint64_t, sizeof(LaunchBlob) / 8> words{};
  std::memcpy(words.data(), mine.data(), sizeof(LaunchBlob));
  comm.broadcast(words.data(), words.size(), 0, {.operation = "share_by"});
  LaunchBlob blob{};
  std::memcpy(blob.data(), words.data(), sizeof(LaunchBlob));
  return blob;
}

}  // namespace zero
