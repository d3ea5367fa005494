// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ShardGrads: ZeRO stage 2. Includes schedule/ only.
#pragma once

#include <zero/policy/shards.hpp>
#include <zero/schedule/builder.hpp>

namespace zero {

/// Of ShardGrads.
struct GradsOptions {
  std::size_t slots = 2;         // whole gradients that may exist at once, of each kind; more only
                                 // where units share more tensors of a kind than that
  bool every_micro_step = true;  // false: keep whole gradients until their last backward
};

/// Shards the gradients: a gradient is whole only until it is reduced.
/// Source:  Rajbhandari et al., ZeRO, 2020, section 5.2.
template <GradsOptions Options = GradsOptions{}>
struct ShardGrads {
  using shards = Gradients;  // gradients are sharded
  /// Whole gradients at once.
  static constexpr Slots slots{Options.slots, !Options.every_micro_step};
  /// Reduces a unit's gradient.
  static constexpr void after_backward(ScheduleBuilder& s, std::size_t unit) {
    if (Options.every_micro_step || s.last_backward(unit)) s.reduce(unit);
  }
};

}  // namespace zero
