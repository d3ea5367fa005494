// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Bytes held and sent by a rank: predicted from the schedule, and measured. May include device/,
// comm/, schedule/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <zero/base/list.hpp>
#include <zero/comm/collective.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/device/memory.hpp>
#include <zero/module/buffers.hpp>
#include <zero/module/control.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/policy/make_schedule.hpp>
#include <zero/schedule/cost.hpp>

namespace zero {

/// Bytes that one rank holds, by what they are for. The same on all ranks.
struct BytesHeld {
  std::size_t weights = 0;    // shards, or whole groups that are not sharded
  std::size_t gradients = 0;  // reduced; or whole where gradients are not sharded
  /// Fp32 masters where weights are narrower, and moments; or their slots, if they are offloaded.
  std::size_t optimizer = 0;
  std::size_t slots = 0;    // for whole units while they compute, and their gradients
  std::size_t staging = 0;  // for what is sent in another type than it is held
  std::size_t control = 0;  // norm, agreement, and what the optimizer makes of each tensor
  /// All together.
  constexpr std::size_t total() const {
    return weights + gradients + optimizer + slots + staging + control;
  }
  friend constexpr bool operator==(const BytesHeld&, const BytesHeld&) = default;
};

/// What was handed out by an arena.
inline BytesHeld measured_bytes(const Arena& arena) {
  return {arena.used(MemoryKind::weights),   arena.used(MemoryKind::gradients),
          arena.used(MemoryKind::optimizer), arena.used(MemoryKind::slots),
          arena.used(MemoryKind::staging),   arena.used(MemoryKind::control)};
}

/// The bytes that a rank holds for the schedules of a module.
///
/// Units:   `states` is how many states the optimizer keeps.
inline BytesHeld predict_bytes_held(const ParameterTable& parameters, std::size_t states,
                                    const ControlShape& control,
                                    std::span<const Schedule> schedules) {
  const auto& groups = parameters.groups();
  const Schedule& any = schedules.front();
  std::size_t ranks = 1, parts = 1;
  if (!groups.empty()) {
    parts = groups.front().parts;
    ranks = groups.front().layout.ranks() / parts;
  }
  // Bytes of group g, if an element of it takes size(its types).
  const auto bytes = [&](auto size) {
    return [&groups, &parameters, size](std::size_t g) {
      return parameters.padded(g) * size(groups[g].types);
    };
  };
  const auto compute = bytes([](const Precision& types) { return size_of(types.compute); });
  const auto gather = bytes([](const Precision& types) { return size_of(types.gather); });
  const auto accumulate = bytes([](const Precision& types) { return size_of(types.accumulate); });
  const auto master =
      bytes([](const Precision& types) { return types.has_master() ? sizeof(float) : 0; });
  const auto kept = [&](std::size_t g) {
    std::size_t numbers = 0;
    for (std::size_t k = 0; k < states; ++k) numbers += groups[g].states.shard(groups[g].layout, k);
    return master(g) + numbers * groups[g].layout.ranks() * size_of(groups[g].types.moments);
  };
  std::size_t home = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (any.home[g] != nowhere) home += compute(g);
  }
  // A slot serves all schedules: it is as large as the largest group that any puts there. So does
  // what a stream needs for its largest step.
  List<std::size_t> params, grads, staging(stream_count, 0);
  for (const Schedule& schedule : schedules) {
    fit_slots(schedule, Space::params_whole, compute, params);
    fit_slots(schedule, Space::grads_whole, accumulate, grads);
    for (const Step& step : schedule.steps) {
      if (!communicates(step.op) || step.op == Op::combine) continue;
      std::size_t& staged = staging[static_cast<std::size_t>(step.stream)];
      staged = std::max(staged, SlotSizes::staging_bytes(step, schedule, groups[step.subject]));
    }
  }
  const auto sum = [](const List<std::size_t>& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  };
  BytesHeld most;
  most.weights = footprint(any, gather, ranks, parts)[Space::params_shard] + home;
  most.slots = sum(params) - home;
  most.optimizer = footprint(any, kept, ranks, parts)[Space::optimizer];
  if (any.traits.offloads()) {
    std::size_t slots = 0;
    for (const Schedule& schedule : schedules) {
      slots = std::max(slots, extent(schedule, Space::state_slot));
    }
    most.optimizer = detail::StateRegions(parameters, states, any.traits).slot_bytes(slots);
  }
  most.gradients = footprint(any, accumulate, ranks, parts)[Space::grads_shard];
  (any.traits.shards_grads ? most.slots : most.gradients) += sum(grads);
  most.staging = sum(staging) + parameters.scratch() * sizeof(float);
  most.control = Control::bytes(control);
  return most;
}

/// Optimizer state of a rank that is kept elsewhere: its bytes, and those that steps have moved.
struct BytesOffloaded {
  std::uint64_t kept = 0, fetched = 0, stored = 0;  // bytes
  friend constexpr bool operator==(const BytesOffloaded&, const BytesOffloaded&) = default;
};
/// The same of one execution of a schedule.
///
/// Units:   `states` is how many states the optimizer keeps.
inline BytesOffloaded predict_bytes_offloaded(const ParameterTable& parameters, std::size_t states,
                                              const Schedule& schedule) {
  const detail::StateRegions regions(parameters, states, schedule.traits);
  BytesOffloaded moved;
  for (const Step& step : schedule.steps) {
    if (step.op == Op::fetch_state) moved.fetched += regions[step.subject].bytes;
    if (step.op == Op::store_state) moved.stored += regions[step.subject].bytes;
  }
  if (schedule.traits.offloads()) moved.kept = regions.total();
  return moved;
}

/// Bytes that one rank sends in one training step, by operation.
struct BytesSent {
  std::size_t all_gather = 0, reduce_scatter = 0, all_reduce = 0;  // by the collective of that name
  /// All together.
  constexpr std::size_t total() const { return all_gather + reduce_scatter + all_reduce; }
  friend constexpr bool operator==(const BytesSent&, const BytesSent&) = default;
};

/// Elements that one rank of an all_reduce sends: all but its part to whoever sums them, then the
/// sum of its part to all others.
constexpr std::size_t sent_in_all_reduce(std::size_t count, std::size_t ranks, std::size_t rank) {
  const std::size_t part = count / ranks + (rank < count % ranks ? 1 : 0);
  return count - part + part * (ranks - 1);
}

/// The bytes that a schedule sends: weights and gradients in their types, and the control block.
/// They depend on the replica only where the replicas do not divide a shard.
inline BytesSent predict_bytes_sent(const ParameterTable& parameters, const ControlShape& control,
                                    const Schedule& schedule, std::size_t ranks,
                                    std::size_t replicas, std::size_t replica) {
  const auto& groups = parameters.groups();
  const ElementsSent weights = traffic(
      schedule,
      [&](std::size_t g) { return parameters.padded(g) * size_of(groups[g].types.gather); }, ranks,
      replicas);
  const std::size_t gathered = weights.gathered + weights.gathered_replicas;
  const std::size_t reduced =
      traffic(
          schedule,
          [&](std::size_t g) { return parameters.padded(g) * size_of(groups[g].types.reduce); },
          ranks, replicas)
          .reduced;
  const bool scatters = schedule.traits.shards_optimizer;
  std::size_t over_replicas = 0, scattered = 0;
  for (const Step& step : schedule.steps) {
    if (!across_replicas(step.op)) continue;
    const GroupInfo& group = groups[step.subject];
    if (step.op == Op::reduce_scatter_replicas) {
      scattered += group.layout.shard() * (replicas - 1) * size_of(group.types.reduce);
    }
    if (step.op != Op::all_reduce_replicas) continue;
    over_replicas +=
        sent_in_all_reduce(scatters ? group.shard() : group.layout.padded(), replicas, replica) *
        size_of(group.types.reduce);
  }
  return {gathered, (scatters ? reduced : 0) + scattered,
          (scatters ? 0 : reduced) + over_replicas + control.sent() * sizeof(double)};
}

/// Bytes that a rank has sent so far over the communicators of a mesh.
template <class Comm>
Traffic measured_traffic(const Mesh<Comm>& mesh) {
  Traffic sum = mesh.world.sent();
  const auto add = [&](const Comm& comm) {
    const Traffic sent = comm.sent();
    sum.all_gather += sent.all_gather;
    sum.reduce_scatter += sent.reduce_scatter;
    sum.all_reduce += sent.all_reduce;
    sum.broadcast += sent.broadcast;
  };
  for (const Comm& axis : mesh.axes) add(axis);
  if (mesh.replicate.size() == 1) return sum;  // the shard axis is the world
  add(mesh.shard);
  add(mesh.replicate);
  return sum;
}

}  // namespace zero
