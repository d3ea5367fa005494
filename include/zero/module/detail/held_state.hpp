// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Lists what a module holds on one rank, for checkpoints. May include anything below module/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <zero/base/array.hpp>
#include <zero/base/element.hpp>
#include <zero/base/list.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/control.hpp>
#include <zero/module/detail/range_states.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero::detail {

/// Which ranks of a group's layout lie in a buffer, and how many ranks of the world hold the same.
struct HeldParts {
  std::size_t first, last;
  std::size_t holders, holder;
};
template <class Comm>
HeldParts whole_parts(const GroupInfo& group, const Mesh<Comm>& mesh) {
  return {0, group.layout.ranks(), mesh.world.size(), mesh.world.rank()};
}
template <class Comm>
HeldParts shard_parts(const GroupInfo& group, const Mesh<Comm>& mesh) {
  const std::size_t first = mesh.shard.rank() * group.parts;
  return {first, first + group.parts, mesh.replicate.size(), mesh.replicate.rank()};
}
/// What this rank updates.
template <class Comm>
HeldParts optimizer_parts(const GroupInfo& group, const Mesh<Comm>& mesh,
                          const StageTraits& traits) {
  if (!traits.shards_optimizer) return whole_parts(group, mesh);
  if (!traits.shards_replicas) return shard_parts(group, mesh);
  const std::size_t part = mesh.shard.rank() * group.parts + mesh.replicate.rank();
  return {part, part + 1, 1, 0};
}

/// Appends to ranges_of(place of a tensor in its group) what of it lies in a buffer.
template <class RangesOf>
void list_ranges(const FlatLayout& layout, const HeldParts& parts, const Array& held,
                 RangesOf ranges_of) {
  for (std::size_t r = parts.first; r < parts.last; ++r) {
    layout.for_each_piece(r, [&](const Piece& piece) {
      const std::size_t at = (r - parts.first) * layout.shard() + piece.shard_begin;
      List<HeldRange>& ranges = ranges_of(piece.tensor);
      // A tensor lies without a gap across borders.
      if (!ranges.empty() && ranges.back().begin + ranges.back().count == piece.tensor_begin) {
        ranges.back().count += piece.count;
      } else {
        ranges.push_back({piece.tensor_begin, piece.count, held.part(at, piece.count).data});
      }
    });
  }
}

/// Copies, one number an element, of states that are kept in blocks; none of other states.
template <class Optimizer>
class UnpackedStates {
 public:
  void clear() { copies_ = {}; }
  /// A copy of what of a group's state k lies in a buffer.
  Array take(const GroupInfo& group, const HeldParts& parts, std::size_t k, const Array& held) {
    const std::size_t count = (parts.last - parts.first) * group.layout.shard();
    copies_.push_back({&group, parts, k, held, List<float>(count, 0.0F)});
    for_each_piece(copies_.back(), [&](const Piece& piece, std::size_t at, float* copy) {
      States::get(group, piece, at, k, held, {copy, piece.count});
    });
    return Array(copies_.back().numbers.data(), count);
  }
  /// The way back, after the copies were replaced.
  void give_back() {
    for (Copy& copy : copies_) {
      for_each_piece(copy, [&](const Piece& piece, std::size_t at, const float* from) {
        States::set(*copy.group, piece, at, copy.k, copy.held,
                    [&](std::size_t i) { return from[i - piece.tensor_begin]; });
      });
    }
  }

 private:
  using States = RangeStates<Optimizer>;
  struct Copy {
    const GroupInfo* group;
    HeldParts parts;
    std::size_t k;
    Array held;
    List<float> numbers;
  };
  template <class F>
  static void for_each_piece(Copy& copy, F f) {
    for (std::size_t r = copy.parts.first; r < copy.parts.last; ++r) {
      copy.group->layout.for_each_piece(r, [&](const Piece& piece) {
        const std::size_t at =
            (r - copy.parts.first) * copy.group->layout.shard() + piece.shard_begin;
        f(piece, at, copy.numbers.data() + at);
      });
    }
  }

  List<Copy> copies_;
};

/// Lists state k of whole tensors: as one of the tensor where it has a number for each element,
/// else as a tensor of its own, behind those of the model.
template <class Optimizer>
void list_whole_state(HeldState& state, const ParameterTable& parameters, const GroupInfo& group,
                      const HeldParts& parts, std::size_t k, const Array& held) {
  for (std::size_t place = 0; place < group.tensors.size(); ++place) {
    const TensorInfo& tensor = parameters.tensors()[group.tensors[place]];
    const std::size_t numbers = parameters.state_numbers(tensor, k);
    if (numbers == 0 && tensor.shape.elements() != 0) continue;
    HeldTensor* to = &state.tensors[group.tensors[place]];
    std::string name = "state." + std::to_string(k);
    if (numbers != tensor.shape.elements()) {
      state.tensors.push_back({tensor.name + '/' + name, Shape{numbers}});
      to = &state.tensors.back();
      name = "numbers";
    }
    HeldPart part{name, held.type};
    part.holders = parts.holders;
    part.holder = parts.holder;
    for (std::size_t r = parts.first; r < parts.last; ++r) {
      group.layout.for_each_piece(r, [&](const Piece& piece) {
        if (piece.tensor != place) return;
        const std::size_t at = (r - parts.first) * group.layout.shard() + piece.shard_begin;
        const Array kept = RangeStates<Optimizer>::kept(group, piece, at, k, held);
        part.ranges.push_back({0, numbers, kept.data});
      });
    }
    to->parts.push_back(std::move(part));
  }
}

/// The loss scale among scalars of a checkpoint, if it is one that moves.
inline std::optional<LossScaleState> loss_scale_of(const std::map<std::string, double>& scalars) {
  if (!scalars.contains("loss_scale")) return {};
  const auto count = [&](const char* name) {  // what is no count becomes -1, which is refused
    const double number = scalars.at(name);
    return number >= 0 && number < 0x1p62 ? static_cast<std::int64_t>(number) : std::int64_t{-1};
  };
  return LossScaleState{scalars.at("loss_scale"), count("loss_scale.good_steps"),
                        count("loss_scale.overflows")};
}

/// Weights (masters where there are any), optimizer state, counters and step of this rank, of which
/// group_of(g) says where they lie.
template <class Optimizer, class Comm, class GroupOf>
HeldState list_state(const ParameterTable& parameters, const Mesh<Comm>& mesh, GroupOf group_of,
                     const Schedule& schedule, const Control& control,
                     [[maybe_unused]] UnpackedStates<Optimizer>& unpacked) {
  HeldState state;
  for (std::size_t t = 0; t < parameters.tensors().size(); ++t) {
    const TensorInfo& tensor = parameters.tensors()[t];
    state.tensors.push_back({tensor.name, tensor.shape, control.counter(t)});
  }
  for (std::size_t g = 0; g < parameters.groups().size(); ++g) {
    const GroupInfo& info = parameters.groups()[g];
    const auto group = group_of(g);
    const auto last_part = [&](std::size_t place) -> HeldPart& {
      return state.tensors[info.tensors[place]].parts.back();
    };
    const auto add = [&](const std::string& name, const HeldParts& parts, const Array& held) {
      for (const std::size_t t : info.tensors) {
        HeldPart part{name, held.type};
        part.holders = parts.holders;
        part.holder = parts.holder;
        state.tensors[t].parts.push_back(part);
      }
      list_ranges(
          info.layout, parts,
          held, [&](std::size_t place) -> auto& { return last_part(place).ranges; });
    };
    const HeldParts params =
        schedule.home[g] == nowhere ? shard_parts(info, mesh) : whole_parts(info, mesh);
    const HeldParts updated = optimizer_parts(info, mesh, schedule.traits);
    if (info.types.has_master() && !info.frozen) {
      add("weight", updated, group.master);
      for (std::size_t place = 0; place < info.tensors.size(); ++place) {
        last_part(place).copy_type = group.params.type;
      }
      list_ranges(
          info.layout, params,
          group.params, [&](std::size_t place) -> auto& { return last_part(place).copies; });
    } else {
      add("weight", params, group.params);
      for (std::size_t place = 0; place < info.tensors.size(); ++place) {
        if (info.types.gather != group.params.type) last_part(place).exact_in = info.types.gather;
      }
    }
    for (std::size_t k = 0; k < group.states.size() && !info.frozen; ++k) {
      if constexpr (!RangeOptimizer<Optimizer>) {
        add("state." + std::to_string(k), updated, group.states[k]);
      } else if constexpr (RangeStates<Optimizer>::of_blocks) {
        add("state." + std::to_string(k), updated,
            unpacked.take(info, updated, k, group.states[k]));
      } else {
        list_whole_state<Optimizer>(state, parameters, info, updated, k, group.states[k]);
      }
    }
  }
  state.step = control.step();
  if (control.scaling().is_fixed()) return state;
  const LossScaleState& scale = control.loss_scale();
  state.scalars = {{"loss_scale", scale.scale},
                   {"loss_scale.good_steps", static_cast<double>(scale.good_steps)},
                   {"loss_scale.overflows", static_cast<double>(scale.overflows)}};
  constexpr std::pair<double, double> counts{0, 0x1p62};
  state.limits = {{"loss_scale", {control.scaling().least(), LossScale::largest}},
                  {"loss_scale.good_steps", counts},
                  {"loss_scale.overflows", counts}};
  return state;
}

}  // namespace zero::detail
