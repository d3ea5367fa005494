// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The memory of one rank: where the operands of a schedule lie. May include device/, schedule/,
// layout/.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <zero/base/array.hpp>
#include <zero/base/list.hpp>
#include <zero/device/memory.hpp>
#include <zero/module/control.hpp>
#include <zero/module/detail/state_regions.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero {

/// How many bytes each slot must hold: the largest group that a schedule puts there; and how many
/// a stream needs for what travels in another type.
class SlotSizes {
 public:
  void include(const Schedule& schedule, const ParameterTable& parameters) {
    const auto grow = [&](List<std::size_t>& sizes, std::size_t slot, std::size_t bytes) {
      if (sizes.size() <= slot) sizes.resize(slot + 1, 0);
      sizes[slot] = std::max(sizes[slot], bytes);
    };
    const auto weights = [&](std::size_t g) {
      return parameters.padded(g) * size_of(parameters.groups()[g].types.compute);
    };
    for (std::size_t g = 0; g < parameters.groups().size(); ++g) {
      if (schedule.home[g] != nowhere) grow(params, schedule.home[g], weights(g));
    }
    for (const Step& step : schedule.steps) {
      if (computes(step.op) || step.op == Op::combine) continue;  // the others act on one group
      const std::size_t g = step.subject;
      for (const Access& access : step) {
        if (access.space == Space::params_whole) grow(params, access.index, weights(g));
        if (access.space == Space::grads_whole) {
          grow(gradients, access.index,
               parameters.padded(g) * size_of(parameters.groups()[g].types.accumulate));
        }
      }
      std::size_t& staged = staging[static_cast<std::size_t>(step.stream)];
      staged = std::max(staged, staging_bytes(step, schedule, parameters.groups()[g]));
    }
  }
  /// Bytes beside its operands in which a step sends and receives: what travels in another type
  /// than it is held.
  static std::size_t staging_bytes(const Step& step, const Schedule& schedule,
                                   const GroupInfo& group) {
    const Precision& types = group.types;
    const std::size_t padded = group.layout.padded(), shard = group.shard();
    const bool gathers = types.gather != types.compute, reduces = types.reduce != types.accumulate;
    const std::size_t weight = size_of(types.gather), gradient = size_of(types.reduce);
    switch (step.op) {
      case Op::gather: return gathers ? padded * weight : 0;
      case Op::gather_replicas:
        return gathers && schedule.home[step.subject] != nowhere ? shard * weight : 0;
      case Op::reduce_scatter:
      case Op::all_reduce: return reduces ? padded * gradient : 0;
      case Op::reduce_scatter_replicas: return reduces ? shard * gradient : 0;
      case Op::all_reduce_replicas:
        return reduces ? (schedule.traits.shards_optimizer ? shard : padded) * gradient : 0;
      default: return 0;
    }
  }
  /// Whether the slots of a schedule are there and large enough.
  bool covers(const SlotSizes& other) const {
    const auto fits = [](const auto& have, const auto& want) {
      return want.size() <= have.size() &&
             std::equal(want.begin(), want.end(), have.begin(),
                        [](std::size_t least, std::size_t size) { return least <= size; });
    };
    return fits(params, other.params) && fits(gradients, other.gradients) &&
           fits(staging, other.staging);
  }
  /// Forgets all sizes.
  void clear() {
    params.assign(params.size(), 0);
    gradients.assign(gradients.size(), 0);
    staging = {};
  }

  List<std::size_t> params, gradients;              // [slot] bytes
  std::array<std::size_t, stream_count> staging{};  // [stream] bytes
};

/// The buffers of one rank, cut from one arena: weights, gradients, optimizer state, slots,
/// staging. Each group says in which types.
template <std::size_t States>
class Buffers {
 public:
  /// Where the buffers of a group begin.
  struct Group {
    Array params;    // the shard, in the type that is gathered, or the whole group as it computes
    Array gradient;  // the shard, if gradients are sharded
    Array own;       // [optimizer part] of `params`
    Array master;    // [optimizer part]; the own weights themselves where there is no other
    std::array<Array, States> states;  // of [optimizer part], as GroupInfo::states says
    Array scratch;                     // for one update at a time
  };

  /// Takes everything from `arena`; an arena without memory only counts.
  Buffers(Arena& arena, const ParameterTable& parameters, const Schedule& schedule,
          const SlotSizes& slots, std::size_t rank, std::size_t replica,
          const ControlShape& control)
      : parameters_(parameters), regions_(parameters, States, schedule.traits) {
    const StageTraits& traits = schedule.traits;
    const std::size_t groups = parameters.groups().size();
    const Array scratch = take(arena, MemoryKind::staging, parameters.scratch(), DataType::fp32);
    whole_.resize(slots.params.size());
    for (std::size_t g = 0; g < groups; ++g) {
      const GroupInfo& info = parameters.groups()[g];
      const std::size_t shard = info.shard(), padded = info.layout.padded();
      const bool home = schedule.home[g] != nowhere;
      Group group;
      group.params = take(arena, MemoryKind::weights, home ? padded : shard,
                          home ? info.types.compute : info.types.gather);
      if (home) whole_[schedule.home[g]] = group.params.data;
      if (!info.frozen) {
        const std::size_t part = traits.shards_optimizer ? info.layout.shard() : padded;
        const std::size_t begin = (home && traits.shards_optimizer ? rank * shard : 0) +
                                  (traits.shards_replicas ? replica * part : 0);
        group.own = group.params.part(begin, part);
        group.master = group.own;
        if (info.types.has_master() && !traits.offloads()) {
          group.master = take(arena, MemoryKind::optimizer, part, DataType::fp32);
        }
        const std::size_t parts = part / std::max<std::size_t>(info.layout.shard(), 1);
        for (std::size_t k = 0; k != States && !traits.offloads(); ++k) {
          group.states[k] = take(arena, MemoryKind::optimizer,
                                 parts * info.states.shard(info.layout, k), info.types.moments);
        }
        group.scratch = scratch;
        if (traits.shards_grads) {
          group.gradient = take(arena, MemoryKind::gradients, shard, info.types.accumulate);
        }
      }
      groups_.push_back(group);
    }
    for (std::size_t s = 0; s < slots.params.size(); ++s) {
      const bool is_home = std::count(schedule.home.begin(), schedule.home.end(), s) != 0;
      if (!is_home) whole_[s] = take(arena, MemoryKind::slots, slots.params[s]);
    }
    // Where gradients are not sharded, their slots are the gradients.
    const MemoryKind kind = traits.shards_grads ? MemoryKind::slots : MemoryKind::gradients;
    for (const std::size_t bytes : slots.gradients) gradients_.push_back(take(arena, kind, bytes));
    for (std::size_t s = 0; s < stream_count; ++s) {
      staging_[s] = take(arena, MemoryKind::staging, slots.staging[s]);
    }
    if (traits.offloads()) place_states(arena, extent(schedule, Space::state_slot));
    control_ = arena.take<std::byte>(MemoryKind::control, Control::bytes(control));
  }

  /// Those of group g, without master and states where these are offloaded.
  const Group& group(std::size_t g) const { return groups_[g]; }
  /// The same with those of a slot.
  const Group& group(std::size_t g, std::size_t slot) const {
    return in_slots_[slot * groups_.size() + g];
  }
  /// The same with those in a copy of the group's region.
  Group placed(std::size_t g, std::byte* region) const {
    const GroupInfo& info = parameters_.groups()[g];
    Group group = groups_[g];
    if (info.frozen) return group;
    const auto take = [&](std::size_t count, DataType type) {
      const Array made(region, count, type);
      region += detail::StateRegions::round_up(made.bytes(), detail::StateRegions::between);
      return made;
    };
    if (info.types.has_master()) group.master = take(regions_[g].part, DataType::fp32);
    for (std::size_t k = 0; k < States; ++k) {
      group.states[k] =
          take(detail::StateRegions::state_numbers(info, regions_[g], k), info.types.moments);
    }
    return group;
  }
  /// Where offloaded state lies.
  const detail::StateRegions& regions() const { return regions_; }
  /// Where the region of a group lies that is in a slot.
  std::byte* state_slot(std::size_t slot) const { return states_ + slot * regions_.largest(); }
  /// A slot as the place where group g is whole.
  Array whole_params(std::size_t slot, std::size_t g) const {
    return {whole_[slot], parameters_.padded(g), types(g).compute};
  }
  /// The gradient of group g in a slot.
  Array whole_gradient(std::size_t slot, std::size_t g) const {
    return {gradients_[slot], parameters_.padded(g), types(g).accumulate};
  }
  /// What a stream sends and receives in another type than it is held; one step at a time.
  Array staging(StreamId stream, std::size_t count, DataType type) const {
    return {staging_[static_cast<std::size_t>(stream)], count, type};
  }
  /// The live copy of Control.
  std::span<std::byte> control() const { return control_; }
  /// Slots of whole parameters.
  std::size_t slots() const { return whole_.size(); }
  /// Slots of whole gradients.
  std::size_t gradient_slots() const { return gradients_.size(); }

 private:
  void place_states(Arena& arena, std::size_t slots) {
    states_ = take(arena, MemoryKind::optimizer, regions_.slot_bytes(slots));
    if (arena.only_counts()) return;
    constexpr std::size_t alignment = detail::StateRegions::alignment;
    states_ += (alignment - reinterpret_cast<std::uintptr_t>(states_) % alignment) % alignment;
    for (std::size_t s = 0; s < slots; ++s) {
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        in_slots_.push_back(placed(g, state_slot(s)));
      }
    }
  }
  const Precision& types(std::size_t g) const { return parameters_.groups()[g].types; }
  static std::byte* take(Arena& arena, MemoryKind kind, std::size_t bytes) {
    return arena.take<std::byte>(kind, bytes).data();
  }
  static Array take(Arena& arena, MemoryKind kind, std::size_t count, DataType type) {
    return {take(arena, kind, count * size_of(type)), count, type};
  }

  const ParameterTable& parameters_;
  detail::StateRegions regions_;
  List<Group> groups_, in_slots_;       // [group], [slot][group]
  std::byte* states_ = nullptr;         // the first slot
  List<std::byte*> whole_, gradients_;  // [slot]
  std::array<std::byte*, stream_count> staging_ = {};
  std::span<std::byte> control_;
};

}  // namespace zero
