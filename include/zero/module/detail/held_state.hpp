// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Lists what a module holds on one rank, for checkpoints. May include anything below module/.
#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>
#include <zero/base/array.hpp>
#include <zero/base/element.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/control.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero::detail {

/// Calls f(place, range) for each range of a group's tensors that a buffer holds: this rank's
/// shard, or where the buffer is whole everything.
template <class F>
void for_each_range(const FlatLayout& layout, const Array& held, bool sharded, std::size_t rank,
                    F f) {
  const auto at = [&](std::size_t begin) { return held.data + begin * size_of(held.type); };
  if (sharded) {
    layout.for_each_piece(rank, [&](const Piece& piece) {
      f(piece.tensor, HeldRange{piece.tensor_begin, piece.count, at(piece.shard_begin)});
    });
    return;
  }
  for (std::size_t i = 0; i < layout.tensors(); ++i) {
    if (layout.tensor_size(i) == 0) continue;
    f(i, HeldRange{0, layout.tensor_size(i), at(layout.tensor_offset(i))});
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
    const auto add = [&](std::string name, const Array& held, bool sharded) {
      for (const std::size_t t : info.tensors) {
        HeldPart part{name, held.type};
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
    if (info.types.has_master() && !info.frozen) {
      add("weight", group.master, optimizer_sharded);
      for_each_range(info.layout, group.params, params_sharded, mesh.shard.rank(),
                     [&](std::size_t place, const HeldRange& range) {
                       HeldPart& part = state.tensors[info.tensors[place]].parts.back();
                       part.copies.push_back(range);
                       part.copy_type = group.params.type;
                     });
    } else {
      add("weight", group.params, params_sharded);
    }
    for (std::size_t k = 0; k < group.states.size() && !info.frozen; ++k) {
      add("state." + std::to_string(k), group.states[k], optimizer_sharded);
    }
  }
  state.step = control.step();
  return state;
}

}  // namespace zero::detail
