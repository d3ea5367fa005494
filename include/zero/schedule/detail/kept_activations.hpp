// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// KeptActivations: which forward wrote what each backward reads, R8. Includes schedule/ only.
#pragma once

#include <zero/schedule/detail/scratch.hpp>
#include <zero/schedule/rules.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero::detail {

/// For the rules: the place in the program of the forward whose activations each buffer holds, and
/// of the latest forward of each unit, micro-step and use.
class KeptActivations {
 public:
  constexpr void reserve(const ModelShape& model, std::size_t buffers, std::size_t micro_steps,
                         std::size_t uses) {
    buffers_.reserve(buffers);
    latest_.reserve(model.units() * micro_steps * uses);
  }
  constexpr void begin(const Schedule& schedule) {
    micro_steps_ = schedule.program.micro_steps;
    uses_ = uses(schedule.program);
    buffers_.reset(extent(schedule, Space::activations));
    latest_.reset(schedule.model.units() * micro_steps_ * uses_);
  }
  /// The forward at `place` of the program writes its activations.
  constexpr Rule write(Access to, const Compute& now, std::size_t place) {
    if (to.mode != Mode::write) return Rule::order;
    if (to.index >= buffers_.size()) return Rule::bound;
    buffers_[to.index] = latest(now) = Forward{place};
    return Rule::none;
  }
  /// A backward reads the activations of its latest forward, once.
  constexpr Rule read(Access from, const Compute& now) {
    if (from.mode != Mode::read) return Rule::order;
    if (from.index >= buffers_.size()) return Rule::bound;
    Forward& forward = latest(now);
    if (forward.place == nothing || buffers_[from.index].place != forward.place) return Rule::order;
    buffers_[from.index] = forward = Forward{};
    return Rule::none;
  }

 private:
  static constexpr std::size_t nothing = ~std::size_t{0};
  struct Forward {
    std::size_t place = nothing;  // in the program
  };
  constexpr Forward& latest(const Compute& now) {
    return latest_[(now.unit * micro_steps_ + now.micro_step) * uses_ + now.use];
  }

  Scratch<Forward> buffers_{}, latest_{};  // [buffer]; [unit, micro-step and use]
  std::size_t micro_steps_ = 1, uses_ = 1;
};

}  // namespace zero::detail
