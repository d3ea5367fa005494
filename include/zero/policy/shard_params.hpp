// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ShardParams: ZeRO stage 3. Includes schedule/ only.
#pragma once

#include <zero/policy/shards.hpp>
#include <zero/schedule/builder.hpp>

namespace zero {

/// For keep_at_turn: all units stay whole until the pass back.
inline constexpr std::size_t keep_all = ~std::size_t{0};
/// Of ShardParams.
struct ParamsOptions {
  std::size_t forward_prefetch = 1;   // computes for which units are gathered ahead
  std::size_t backward_prefetch = 1;  // the same while the pass goes backward
  std::size_t slots = 0;         // whole groups that may exist at once, of each kind; 0: as needed
  std::size_t keep_at_turn = 1;  // units that stay whole where the pass turns round
};

/// Shards the parameters: a unit is whole only while it computes. Slots let a gather overlap
/// computing; prefetching only fixes in which order collectives are issued, so that more than one
/// unit ahead rarely pays.
/// Source:  Rajbhandari et al., ZeRO, 2020, section 5.3.
template <ParamsOptions Options = ParamsOptions{}>
struct ShardParams {
  using shards = Parameters;  // parameters are sharded
  /// How far ahead units are gathered at most.
  static constexpr std::size_t furthest = Options.forward_prefetch > Options.backward_prefetch
                                              ? Options.forward_prefetch
                                              : Options.backward_prefetch;
  /// Whole units at once.
  static constexpr Slots slots{Options.slots != 0 ? Options.slots : furthest + 1,
                               Options.slots == 0};

  /// Gathers this unit and those ahead.
  static constexpr void before_forward(ScheduleBuilder& s, std::size_t) {
    gather_ahead(s, Options.forward_prefetch);
  }
  /// Releases it, unless it comes again soon.
  static constexpr void after_forward(ScheduleBuilder& s, std::size_t unit) { leave(s, unit); }
  /// Gathers this unit and those ahead.
  static constexpr void before_backward(ScheduleBuilder& s, std::size_t) {
    gather_ahead(s, Options.backward_prefetch);
  }
  /// Releases it, unless it comes again soon.
  static constexpr void after_backward(ScheduleBuilder& s, std::size_t unit) { leave(s, unit); }

 private:
  static constexpr void gather_ahead(ScheduleBuilder& s, std::size_t computes) {
    for (std::size_t k = 0; k <= computes; ++k) {
      const Index unit = s.ahead(k);
      if (unit == nowhere) return;
      s.gather(unit);
    }
  }
  static constexpr void leave(ScheduleBuilder& s, std::size_t unit) {
    // At a turn the unit that turns comes back at once, the one before it two computes later.
    const std::size_t next = s.next_use(unit);
    const bool kept = Options.keep_at_turn == keep_all
                          ? next != never
                          : next != never && next + 1 <= 2 * Options.keep_at_turn;
    if (!kept) s.release(unit);
  }
};

}  // namespace zero
