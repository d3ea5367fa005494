// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Windows: which backwards add to a gradient, and which have. Includes schedule/ only.
#pragma once

#include <zero/schedule/detail/scratch.hpp>
#include <zero/schedule/rules.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero::detail {

/// For the rules: what the program says of each gradient. Shares no code with ProgramIndex, which
/// tells a builder much the same, so that each checks the other.
class Windows {
 public:
  /// Reads the program; finds R8 broken if it names what is not there or trains without an update.
  constexpr Finding begin(const Schedule& schedule) {
    const ModelShape& model = schedule.model;
    micro_steps_ = schedule.program.micro_steps;
    groups_.reset(model.groups());
    parts_.reset(model.groups() * micro_steps_);
    for (const Compute& compute : schedule.program.computes) {
      const bool exists = compute.unit < model.units() && compute.micro_step < micro_steps_;
      const bool trains = compute.op == Op::backward && schedule.program.updates;
      const bool legal = exists && (trains || compute.op == Op::forward);
      if (!legal) return {Rule::order, 0, 0, compute.unit};
      if (!trains) continue;
      for (const Index g : model.unit(compute.unit)) {
        if (model.group(g).frozen) continue;
        ++groups_[g].expected;
        ++parts_[g * micro_steps_ + compute.micro_step].expected;
      }
    }
    return {};
  }
  constexpr void reserve(const ModelShape& model, std::size_t micro_steps) {
    groups_.reserve(model.groups());
    parts_.reserve(model.groups() * micro_steps);
  }
  /// A backward of this micro-step has added to the gradient of group g.
  constexpr void add(std::size_t g, std::size_t micro_step) {
    Parts& parts = parts_[g * micro_steps_ + micro_step];
    if (parts.given++ == 0) ++groups_[g].open;
    if (parts.given == parts.expected) --groups_[g].open;
  }
  /// Backwards of the program that add to the gradient of group g.
  constexpr std::size_t expected(std::size_t g) const { return groups_[g].expected; }
  /// Whether some backwards of a micro-step have added to it and others have still to.
  constexpr bool open(std::size_t g) const { return groups_[g].open != 0; }

 private:
  struct Group {
    std::size_t expected = 0, open = 0;  // open: micro-steps begun, but not complete
  };
  struct Parts {
    std::size_t expected = 0, given = 0;
  };

  Scratch<Group> groups_{};
  Scratch<Parts> parts_{};  // [group * micro_steps + micro_step]
  std::size_t micro_steps_ = 1;
};

}  // namespace zero::detail
