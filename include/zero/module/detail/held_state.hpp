// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Lists what a module holds on one rank, for checkpoints. May include anything below module/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>
#include <zero/base/array.hpp>
#include <zero/base/element.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/control.hpp>
#include <zero/module/parameter_table.hpp>
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
      std::vector<HeldRange>& ranges = ranges_of(piece.tensor);
      // A tensor lies without a gap across borders.
      if (!ranges.empty() && ranges.back().begin + ranges.back().count == piece.tensor_begin) {
        ranges.back().count += piece.count;
      } else {
        ranges.push_back({piece.tensor_begin, piece.count, held.part(at, piece.count).data});
      }
    });
  }
}

/// Weights (masters where there are any), optimizer state, counters and step of this rank.
template <class Buffers, class Comm>
HeldState list_state(const ParameterTable& parameters, const Mesh<Comm>& mesh,
                     const Buffers& buffers, const Schedule& schedule, const Control& control) {
  HeldState state;
  for (std::size_t t = 0; t < parameters.tensors().size(); ++t) {
    const TensorInfo& tensor = parameters.tensors()[t];
    state.tensors.push_back({tensor.name, tensor.shape, control.counter(t)});
  }
  for (std::size_t g = 0; g < parameters.groups().size(); ++g) {
    const GroupInfo& info = parameters.groups()[g];
    const auto& group = buffers.group(g);
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
    }
    for (std::size_t k = 0; k < group.states.size() && !info.frozen; ++k) {
      add("state." + std::to_string(k), updated, group.states[k]);
    }
  }
  state.step = control.step();
  if (control.scaling().is_fixed()) return state;
  const LossScaleState& scale = control.loss_scale();
  state.scalars = {{"loss_scale", scale.scale},
                   {"loss_scale.good_steps", static_cast<double>(scale.good_steps)},
                   {"loss_scale.overflows", static_cast<double>(scale.overflows)}};
  return state;
}
/// The loss scale among what was listed, if it is one that moves.
inline std::optional<LossScaleState> loss_scale_of(const HeldState& state) {
  if (!state.scalars.contains("loss_scale")) return {};
  const auto count = [&](const char* name) {
    return static_cast<std::int64_t>(state.scalars.at(name));
  };
  return LossScaleState{state.scalars.at("loss_scale"), count("loss_scale.good_steps"),
                        count("loss_scale.overflows")};
}

}  // namespace zero::detail
