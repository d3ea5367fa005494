// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// KeepWhole: small groups are not sharded. Includes schedule/ and policy/ only.
#pragma once

#include <cstddef>
#include <zero/policy/shards.hpp>

namespace zero {

/// Of KeepWhole.
struct ResidentOptions {
  std::size_t smaller_than = 0;  // elements of a group that is kept whole
};

/// Keeps the parameters of groups whole at all times that have fewer elements than an option says:
/// the trained or the frozen tensors of one unit. Gathering them would cost more time than they
/// cost memory. Their gradients and optimizer state are sharded as the stage says. A unit that is
/// declared with stays_whole() is kept in any stage, whatever its size.
///
/// Moves:   such a group is gathered once a training step, after its update, not for each compute.
/// Source:  stage3_param_persistence_threshold of DeepSpeed.
template <ResidentOptions Options>
struct KeepWhole {
  using shards = Nothing;  // it shards nothing
  /// As a policy says it; see WholeRule.
  static constexpr std::size_t whole_below = Options.smaller_than;
};

}  // namespace zero
