// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Lists what a module holds on one rank, for checkpoints. May include anything below module/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>
#include <zero/base/element.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/control.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero::detail {

/// Calls f(place, range) for each range of a group's tensors that a buffer holds: this rank's
/// shard, or where the buffer is whole everything.
template <class T, class F>
void for_each_range(const FlatLayout& layout, std::span<T> held, bool sharded, std::size_t rank,
                    F f) {
  if (sharded) {
    layout.for_each_piece(rank, [&](const Piece& piece) {
      f(piece.tensor, HeldRange{piece.tensor_begin, piece.count, held.data() + piece.shard_begin});
    });
    return;
  }
  for (std::size_t i = 0; i < layout.tensors(); ++i) {
    if (layout.tensor_size(i) == 0) continue;
    f(i, HeldRange{0, layout.tensor_size(i), held.data() + layout.tensor_offset(i)});
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
    /// A part of each tensor of the group, and where its numbers lie.
    const auto add = [&](std::string name, auto held, bool sharded) {
      const auto type = data_type<typename decltype(held)::value_type>;
      for (const std::size_t t : info.tensors) {
        HeldPart part{name, type};
        part.holders = sharded ? mesh.replicate.size() : mesh.world.size();
        part.holder = sharded ? mesh.replicate.rank() : mesh.world.rank();
        state.tensors[t].parts.push_back(std::move(part));
      }
      for_each_range(info.layout, held, sharded, mesh.shard.rank(),
                     [&](std::size_t place, const HeldRange& range) {
                       state.tensors[info.tensors[place]].parts.back().ranges.push_back(range);
                     });
    };
    const bool params_sharded = schedule.home[g] == nowhere;
    const bool optimizer_sharded = schedule.traits.shards_optimizer;
    if (Buffers::has_master && !info.frozen) {
      add("weight", group.master, optimizer_sharded);
      for_each_range(info.layout, group.params, params_sharded, mesh.shard.rank(),
                     [&](std::size_t place, const HeldRange& range) {
                       HeldPart& part = state.tensors[info.tensors[place]].parts.back();
                       part.copies.push_back(range);
                       part.copy_type = data_type<typename decltype(group.params)::value_type>;
                     });
    } else {
      add("weight", group.params, params_sharded);
    }
    for (std::size_t k = 0; k < group.states.size() && !info.frozen; ++k) {
      add("state." + std::to_string(k), group.states[k], optimizer_sharded);
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
