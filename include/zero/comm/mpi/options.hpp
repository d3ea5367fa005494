// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What can be chosen for a communicator over MPI. Includes the standard library only.
#pragma once

#include <chrono>
#include <cstddef>

namespace zero {

/// What a caller may choose of a communicator over MPI.
struct MpiOptions {
  /// How long a collective waits for its peers before it fails on all ranks.
  std::chrono::milliseconds time_limit = std::chrono::seconds(30);
  /// Elements in one message of MPI; what is larger is split, whatever its size. Equal on all
  /// ranks. A communicator of w ranks holds (w - 1) * 4 messages of 8 bytes an element for its
  /// whole life.
  std::size_t message_elements = 1 << 14;
};

}  // namespace zero
