// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// FetchedStates: checks what the slots of offloaded optimizer state hold. Includes schedule/ only.
#pragma once

#include <zero/schedule/detail/operands.hpp>
#include <zero/schedule/detail/scratch.hpp>
#include <zero/schedule/rules.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero::detail {

/// Which group's state each slot holds, step by step: fetched, then updated, then stored.
class FetchedStates {
 public:
  constexpr void begin(const Schedule& schedule) {
    offloads_ = schedule.traits.offloads();
    slots_.reset(extent(schedule, Space::state_slot));
    stored_.reset(schedule.model.groups());
  }
  constexpr void reserve(std::size_t groups) {
    slots_.reserve(groups);
    stored_.reserve(groups);
  }
  constexpr Rule fetch(const Step& step, std::size_t g) {
    const Access to = find(step, Space::state_slot);
    if (to.index >= slots_.size()) return Rule::bound;
    if (!offloads_ || to.mode != Mode::write || slots_[to.index].group != nowhere || stored_[g] ||
        !touches(step, Space::optimizer, Mode::read, g)) {
      return Rule::balanced;
    }
    slots_[to.index] = {static_cast<Index>(g), false};
    return Rule::none;
  }
  /// Whether an update changes the state of group g where it is to.
  constexpr bool update(const Step& step, std::size_t g) {
    if (!offloads_) return touches(step, Space::optimizer, Mode::update, g);
    const Access at = find(step, Space::state_slot);
    if (at.mode != Mode::update || !holds(at.index, g, false)) return false;
    slots_[at.index].updated = true;
    return true;
  }
  constexpr Rule store(const Step& step, std::size_t g) {
    const Access from = find(step, Space::state_slot);
    if (from.mode != Mode::read || !holds(from.index, g, true) ||
        !touches(step, Space::optimizer, Mode::write, g)) {
      return Rule::balanced;
    }
    slots_[from.index] = {};
    stored_[g] = true;
    return Rule::none;
  }
  constexpr bool all_stored() const { return all_free(slots_); }

 private:
  struct Slot {
    Index group = nowhere;
    bool updated = false;
  };
  constexpr bool holds(std::size_t slot, std::size_t g, bool updated) const {
    return slot < slots_.size() && slots_[slot].group == g && slots_[slot].updated == updated;
  }

  bool offloads_ = false;
  Scratch<Slot> slots_{};
  Scratch<bool> stored_{};  // [group]
};

}  // namespace zero::detail
