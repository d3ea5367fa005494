// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ShardOptimizer: ZeRO stage 1. Includes schedule/ only.
#pragma once

#include <zero/policy/shards.hpp>
#include <zero/schedule/builder.hpp>

namespace zero {

struct OptimizerOptions {};

/// Shards the optimizer state: each rank updates its part of every group, then all gather it.
/// Source:  Rajbhandari et al., ZeRO, 2020, section 5.1.
template <OptimizerOptions = OptimizerOptions{}>
struct ShardOptimizer {
  using shards = OptimizerState;  // the optimizer state is sharded
  /// Publishes what was updated, where parameters are whole.
  static constexpr void after_update(ScheduleBuilder& s, std::size_t unit) { s.publish(unit); }
};

}  // namespace zero
