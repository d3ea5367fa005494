// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// StateQueue: which group's optimizer state is fetched next, and into which slot. Includes
// schedule/ only.
#pragma once

#include <zero/schedule/detail/program_index.hpp>
#include <zero/schedule/detail/scratch.hpp>
#include <zero/schedule/detail/slot_pool.hpp>
#include <zero/schedule/step.hpp>

namespace zero::detail {

/// Groups in the order of their updates; state passes through few slots, each fit for any group.
class StateQueue {
 public:
  /// Begins with the groups that a program trains, unit by unit, and at most `slots` slots.
  constexpr void line_up(const ModelShape& model, const ProgramIndex& index, std::size_t slots) {
    count_ = next_ = 0;
    if (slots == 0) return;
    pool_.reset(false, model.groups());
    order_.reset(model.groups());
    places_.reset(model.groups());
    for (std::size_t u = 0; u < model.units(); ++u) {
      for (const Index g : model.unit(u)) {
        if (!index.trained(g) || places_[g].queued) continue;
        places_[g].queued = true;
        if (count_ < slots) pool_.add(0);
        order_[count_++] = g;
      }
    }
  }
  /// The next group, which now has a slot; or nowhere, if all have had one or none is free.
  constexpr Index fetch() {
    if (next_ == count_) return nowhere;
    const Index slot = pool_.acquire(0);
    if (slot == nowhere) return nowhere;
    places_[order_[next_]].slot = slot;
    return order_[next_++];
  }
  constexpr void give_back(std::size_t group) {
    if (slot(group) == nowhere) return;
    pool_.release(places_[group].slot, 0);
    places_[group].slot = nowhere;
  }
  /// That of a group, or nowhere.
  constexpr Index slot(std::size_t group) const {
    return count_ == 0 ? nowhere : places_[group].slot;
  }
  /// Slots that there are.
  constexpr Index size() const { return count_ == 0 ? Index{0} : pool_.size(); }

 private:
  struct Place {
    Index slot = nowhere;
    bool queued = false;
  };
  SlotPool pool_{};
  Scratch<Index> order_{};
  Scratch<Place> places_{};  // [group]
  std::size_t count_ = 0, next_ = 0;
};

}  // namespace zero::detail
