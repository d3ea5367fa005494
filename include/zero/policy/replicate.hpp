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
    s.all_reduce_replicas(unit);
  }
};

}  // namespace zero
