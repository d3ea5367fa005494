// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// TakeTurns: one collective at a time. Includes policy/ only.
#pragma once

#include <zero/policy/shards.hpp>

namespace zero {

/// Lets collectives run one at a time, in issue order. One NCCL communicator does so by itself; two
/// on one device can block each other if two ranks run them in different order.
/// Source:  NVIDIA/nccl issues 195 and 574.
struct TakeTurns {
  using shards = Nothing;                    // it shards nothing
  static constexpr bool takes_turns = true;  // collectives run one at a time
};

}  // namespace zero
