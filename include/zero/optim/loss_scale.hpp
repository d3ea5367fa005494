// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// LossScale: by what a loss is multiplied, and how that follows overflows. May include base/.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <zero/base/error.hpp>
#include <zero/base/host_device.hpp>

namespace zero {

/// What a loss scale keeps from step to step.
struct LossScaleState {
  double scale = 1;             // what the loss is multiplied with
  std::int64_t good_steps = 0;  // since the scale changed or a step overflowed
  std::int64_t overflows = 0;   // since the scale grew
  friend constexpr bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

/// How a loss is scaled so that small gradients survive a narrow type. This one is dynamic: smaller
/// after overflows, larger after good steps. LossScale::fixed(scale) never moves, and 1 is none.
///
/// The scale is multiplied by `backoff` in the overflow number `hysteresis` and in each one after
/// that, until it grows; an overflow that would take it below its floor is an error. It is
/// multiplied by `growth` after `growth_interval` good steps in a row.
///
/// Source:  Micikevicius et al., Mixed precision training, 2018, section 3.2.
struct LossScale {
  double initial = 65536;               // the first scale
  double floor = 1;                     // an overflow at this scale is an error
  std::int64_t growth_interval = 2000;  // good steps until the scale grows
  std::int64_t hysteresis = 1;          // overflows until the scale falls
  double growth = 2;                    // what it is multiplied with when it grows
  double backoff = 0.5;                 // what it is multiplied with when it falls

  /// A scale that stays.
  static constexpr LossScale fixed(double scale) {
    return {.initial = scale, .floor = 0, .growth = 1, .backoff = 1};
  }

  /// Whether it stays.
  ZERO_HOST_DEVICE constexpr bool is_fixed() const { return growth == 1 && backoff == 1; }
  /// The state before the first step.
  constexpr LossScaleState begin() const { return {.scale = initial}; }
  /// The state after a step that was applied, whose sum was divided by `divisor` besides the scale.
  /// The scale does not grow so far that the two together are no float any more.
  ZERO_HOST_DEVICE constexpr LossScaleState after_good_step(LossScaleState state,
                                                            double divisor = 1) const {
    if (is_fixed() || ++state.good_steps < growth_interval) return state;
    const double grown = state.scale * growth;
    return {.scale = grown <= largest && grown * divisor <= largest ? grown : state.scale};
  }
  /// Whether one more overflow is an error.
  ZERO_HOST_DEVICE constexpr bool at_floor(const LossScaleState& state) const {
    return state.overflows + 1 >= hysteresis && state.scale <= floor;
  }
  /// The state after a step that was skipped.
  ZERO_HOST_DEVICE constexpr LossScaleState after_overflow(LossScaleState state) const {
    if (is_fixed()) return state;
    state.good_steps = 0;
    if (++state.overflows < hysteresis) return state;
    state.scale *= backoff;
    if (state.scale < floor) state.scale = floor;
    return state;
  }

  /// Errors:  ContractError for numbers that make no sense.
  void check() const {
    if (initial >= smallest && initial <= largest && floor >= 0 && floor <= initial &&
        growth_interval >= 1 && hysteresis >= 1 && growth >= 1 && growth <= largest &&
        backoff > 0 && backoff <= 1) {
      return;
    }
    throw ContractError(
        "zero::LossScale: expected 0 <= floor <= initial, a positive float for initial, "
        "growth_interval and hysteresis of at least 1, growth >= 1 and 0 < backoff <= 1; got "
        "floor " +
        std::to_string(floor) + ", initial " + std::to_string(initial) + ", growth_interval " +
        std::to_string(growth_interval) + ", hysteresis " + std::to_string(hysteresis) +
        ", growth " + std::to_string(growth) + ", backoff " + std::to_string(backoff));
  }
  /// Refuses a state that cannot be, as a ContractError.
  void check(const LossScaleState& state) const {
    if (state.scale >= least() && state.scale <= largest && state.good_steps >= 0 &&
        state.overflows >= 0) {
      return;
    }
    throw ContractError("zero: set_loss_scale: expected a positive float from the floor " +
                        std::to_string(floor) + " up and counts from 0, got a scale of " +
                        std::to_string(state.scale) + ", " + std::to_string(state.good_steps) +
                        " good steps and " + std::to_string(state.overflows) + " overflows");
  }

  /// The least that a scale may be here.
  constexpr double least() const { return floor > smallest ? floor : smallest; }
  static constexpr double largest = std::numeric_limits<float>::max();  // that a scale may be

 private:
  static constexpr double smallest = std::numeric_limits<float>::min();
};

}  // namespace zero
