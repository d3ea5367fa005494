// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ProgramIndex: what a builder must know of the rest of a program. Includes schedule/ only.
#pragma once

#include <zero/schedule/detail/scratch.hpp>
#include <zero/schedule/model_shape.hpp>
#include <zero/schedule/program.hpp>

namespace zero {

inline constexpr std::size_t never = ~std::size_t{0} / 2;

namespace detail {

/// Answers, while a program is walked, when a unit computes again and who has still to add to a
/// gradient.
class ProgramIndex {
 public:
  /// Errors:  ShapeError if the program names what the model does not have.
  constexpr void read(const ModelShape& model, const Program& program) {
    const Compute* const computes = program.computes.data();
    const std::size_t count = program.computes.size();
    units_.reset(model.units());
    groups_.reset(model.groups());
    parts_.reset(model.groups() * program.micro_steps);
    next_.reset(count);
    micro_steps_ = program.micro_steps;
    uses_ = uses(program);
    sets_ = 1;
    for (std::size_t c = count; c-- > 0;) {
      const Compute compute = computes[c];
      const bool exists = zero::computes(compute.op) && compute.unit < model.units() &&
                          compute.micro_step < micro_steps_;
      if (!exists)
        throw ShapeError(
            "zero: a program names a unit or micro-step that its model does not have; number both "
            "from 0");
      Unit& unit = units_[compute.unit];
      next_[c] = unit.next;
      unit.next = c;
      const bool other = unit.awaited != never && unit.awaited != set(compute);
      if (other) sets_ = micro_steps_ * uses_;  // two forwards before the first one's backward
      unit.awaited = compute.op == Op::backward ? set(compute) : never;
      if (compute.op != Op::backward) continue;
      ++unit.backwards_left;
      for (const Index g : model.unit(compute.unit)) {
        if (model.group(g).frozen) continue;
        groups_[g].trained = true;
        ++groups_[g].parts_left;
        ++parts_[g * micro_steps_ + compute.micro_step].expected;
      }
    }
    if (model.units() * sets_ > nowhere) {
      throw ShapeError(
          "zero: a program holds the activations of more than 65535 units at once; run backwards "
          "earlier");
    }
  }
  /// Notes that `unit` computes now, at `place`.
  constexpr void go_to(std::size_t unit, std::size_t place) { units_[unit].next = next_[place]; }
  /// Notes that a backward has added to the gradients of its groups.
  constexpr void pass_backward(const ModelShape& model, Compute compute) {
    --units_[compute.unit].backwards_left;
    for (const Index g : model.unit(compute.unit)) {
      Group& group = groups_[g];
      if (!group.trained) continue;
      Parts& parts = parts_[g * micro_steps_ + compute.micro_step];
      if (parts.given++ == 0) ++group.open;
      if (parts.given == parts.expected) --group.open;
      --group.parts_left;
    }
  }

  /// The place of the next compute of `unit`, or never.
  constexpr std::size_t next(std::size_t unit) const { return units_[unit].next; }
  constexpr std::size_t backwards_left(std::size_t unit) const {
    return units_[unit].backwards_left;
  }
  /// Whether some backward of the program adds to the gradient of group g.
  constexpr bool trained(std::size_t g) const { return groups_[g].trained; }
  /// Backwards that have still to add to the gradient of group g.
  constexpr std::size_t parts_left(std::size_t g) const { return groups_[g].parts_left; }
  /// Whether a micro-step has added a part, but not all its parts, to the gradient of group g.
  constexpr bool open(std::size_t g) const { return groups_[g].open != 0; }
  /// How many activations of a unit there may be at once.
  constexpr std::size_t sets() const { return sets_; }
  /// Which of them a compute touches.
  constexpr std::size_t set_of(Compute compute) const { return sets_ == 1 ? 0 : set(compute); }
  /// Obtains room for programs of that many computes and micro-steps.
  constexpr void reserve(const ModelShape& model, std::size_t computes, std::size_t micro_steps) {
    units_.reserve(model.units());
    groups_.reserve(model.groups());
    parts_.reserve(model.groups() * micro_steps);
    next_.reserve(computes);
  }

 private:
  struct Unit {
    std::size_t next = never, backwards_left = 0;
    std::size_t awaited = never;  // while reading backward: set of the backward that follows
  };
  struct Group {
    bool trained = false;
    std::size_t parts_left = 0, open = 0;
  };
  struct Parts {
    Index expected = 0, given = 0;
  };

  constexpr std::size_t set(Compute compute) const {
    return compute.micro_step * uses_ + compute.use;
  }

  Scratch<Unit> units_{};
  Scratch<Group> groups_{};
  Scratch<Parts> parts_{};       // [group * micro_steps + micro_step]
  Scratch<std::size_t> next_{};  // [place] of the next compute of the same unit
  std::size_t micro_steps_ = 1, uses_ = 1, sets_ = 1;
};

}  // namespace detail
}  // namespace zero
