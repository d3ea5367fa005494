// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Replicate: shards with replicas (HSDP). Includes schedule/ only.
#pragma once

#include <zero/policy/shards.hpp>
#include <zero/schedule/builder.hpp>

namespace zero {

/// Replicates the shards over groups of ranks, whose gradients are summed once per training step.
/// Stands before the policies that it wraps.
struct Replicate {
  using shards = Nothing;                   // it shards nothing
  static constexpr bool replicates = true;  // there are replicas
  /// Sums what was reduced over the replicas.
  static constexpr void after_backward(ScheduleBuilder& s, std::size_t unit) {
    s.reduce_replicas(unit);
  }
};

/// Replicates the shards of parameters and gradients over groups of ranks, while the optimizer
/// state is sharded over all ranks: of a shard each replica reduces and updates its part, and all
/// gather it. Units are gathered within a group only, in forward and backward, from what ZeRO++
/// calls a secondary partition (hpZ). Stands before the policies that it wraps, in place of
/// Replicate. Source:  Wang et al., ZeRO++, 2023, section 3.2; Zhang et al., MiCS, 2022, section 3.
struct ReplicateParams {
  using shards = Nothing;                        // it shards nothing by itself
  static constexpr bool replicates = true;       // there are replicas
  static constexpr bool shards_replicas = true;  // each holds a part of the optimizer state
  /// Sums what was reduced over the replicas, each its part.
  static constexpr void after_backward(ScheduleBuilder& s, std::size_t unit) {
    s.reduce_replicas(unit);
  }
  /// Replicas publish their parts to each other.
  static constexpr void after_update(ScheduleBuilder& s, std::size_t unit) {
    s.publish_replicas(unit);
  }
};

}  // namespace zero
