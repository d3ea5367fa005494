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
  using shards = Nothing;
  static constexpr bool replicates = true;
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
  using shards = Nothing;
  static constexpr bool replicates = true, shards_replicas = true;
  static constexpr void after_backward(ScheduleBuilder& s, std::size_t unit) {
    s.reduce_replicas(unit);
  }
  static constexpr void after_update(ScheduleBuilder& s, std::size_t unit) {
    s.publish_replicas(unit);
  }
};

}  // namespace zero
