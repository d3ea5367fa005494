// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The memory of one rank: where the operands of a schedule lie. May include device/, schedule/,
// layout/.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>
#include <zero/device/memory.hpp>
#include <zero/module/control_block.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero {

/// How many elements each slot must hold: the largest group that a schedule puts there.
class SlotSizes {
 public:
  void include(const Schedule& schedule, const ParameterTable& parameters) {
    const auto grow = [&](std::vector<std::size_t>& sizes, std::size_t slot, std::size_t group) {
      if (sizes.size() <= slot) sizes.resize(slot + 1, 0);
      sizes[slot] = std::max(sizes[slot], parameters.padded(group));
    };
    for (std::size_t g = 0; g < parameters.groups().size(); ++g) {
      if (schedule.home[g] != nowhere) grow(params, schedule.home[g], g);
    }
    for (const Step& step : schedule.steps) {
      if (computes(step.op) || step.op == Op::combine) continue;  // the others act on one group
      for (const Access& access : step) {
        if (access.space == Space::params_whole) grow(params, access.index, step.subject);
        if (access.space == Space::grads_whole) grow(gradients, access.index, step.subject);
      }
    }
  }
  /// Whether the slots of a schedule are there and large enough.
  bool covers(const SlotSizes& other) const {
    const auto fits = [](const std::vector<std::size_t>& have,
                         const std::vector<std::size_t>& want) {
      return want.size() <= have.size() &&
             std::equal(want.begin(), want.end(), have.begin(), std::less_equal<>());
    };
    return fits(params, other.params) && fits(gradients, other.gradients);
  }
  void clear() {
    params.assign(params.size(), 0);
    gradients.assign(gradients.size(), 0);
  }

  std::vector<std::size_t> params, gradients;  // [slot] elements
};

/// The buffers of one rank, cut from one arena: weights, gradients, optimizer state, slots.
///
/// T is the type of the weights that compute; gradients, master weights and moments are fp32. Where
/// T is float the weights are their own master.
template <class T, std::size_t States>
class Buffers {
 public:
  static constexpr bool has_master = !std::is_same_v<T, float>;

  struct Group {
    std::span<T> params;        // the shard, or the whole group if it is not sharded
    std::span<float> gradient;  // the shard, if gradients are sharded
    std::span<float> master;    // [optimizer part]; the own weights themselves where T is float
    std::span<T> own;           // the weights that belong to `master`
    std::array<std::span<float>, States> states;  // [optimizer part]
  };

  /// Takes everything from `arena`; an arena without memory only counts.
  Buffers(Arena& arena, const ParameterTable& parameters, const Schedule& schedule,
          const SlotSizes& slots, std::size_t rank, std::size_t replica,
          const ControlShape& control) {
    const StageTraits& traits = schedule.traits;
    const std::size_t groups = parameters.groups().size();
    whole_.resize(slots.params.size());
    for (std::size_t g = 0; g < groups; ++g) {
      const GroupInfo& info = parameters.groups()[g];
      const std::size_t shard = info.shard(), padded = info.layout.padded();
      const bool home = schedule.home[g] != nowhere;
      Group group;
      group.params = arena.take<T>(MemoryKind::weights, home ? padded : shard);
      if (home) whole_[schedule.home[g]] = group.params;
      if (!info.frozen) {
        const std::size_t part = traits.shards_optimizer ? info.layout.shard() : padded;
        const std::size_t begin = (home && traits.shards_optimizer ? rank * shard : 0) +
                                  (traits.shards_replicas ? replica * part : 0);
        group.own = subspan(group.params, begin, part);
        if constexpr (has_master) {
          group.master = arena.take<float>(MemoryKind::optimizer, part);
        } else {
          group.master = group.own;
        }
        for (auto& state : group.states) state = arena.take<float>(MemoryKind::optimizer, part);
        if (traits.shards_grads) {
          group.gradient = arena.take<float>(MemoryKind::gradients, shard);
        }
      }
      groups_.push_back(group);
    }
    for (std::size_t s = 0; s < slots.params.size(); ++s) {
      const bool is_home = std::count(schedule.home.begin(), schedule.home.end(), s) != 0;
      if (!is_home) whole_[s] = arena.take<T>(MemoryKind::slots, slots.params[s]);
    }
    // Where gradients are not sharded, their slots are the gradients.
    const MemoryKind kind = traits.shards_grads ? MemoryKind::slots : MemoryKind::gradients;
    for (const std::size_t size : slots.gradients)
      gradients_.push_back(arena.take<float>(kind, size));
    block_size_ = control.block();
    control_ = arena.take<double>(MemoryKind::control, block_size_ + groups);
  }

  const Group& group(std::size_t g) const { return groups_[g]; }
  std::span<T> whole_params(std::size_t slot) const { return whole_[slot]; }
  std::span<float> whole_gradient(std::size_t slot) const { return gradients_[slot]; }
  std::span<double> control_block() const { return control_.first(block_size_); }
  std::span<double> norms() const { return control_.subspan(block_size_); }
  std::size_t slots() const { return whole_.size(); }
  std::size_t gradient_slots() const { return gradients_.size(); }

 private:
  /// Also of a span without memory, which an arena that only counts gives.
  static std::span<T> subspan(std::span<T> whole, std::size_t begin, std::size_t count) {
    return whole.data() == nullptr ? std::span<T>() : whole.subspan(begin, count);
  }

  std::vector<Group> groups_;
  std::vector<std::span<T>> whole_;          // [slot]
  std::vector<std::span<float>> gradients_;  // [slot]
  std::span<double> control_;                // the block that ranks sum, then the norms of groups
  std::size_t block_size_ = 0;
};

}  // namespace zero
