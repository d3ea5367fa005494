// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Bytes that a rank holds and sends, asked of the schedule. May include plan/, policy/, schedule/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string_view>
#include <zero/plan/model_description.hpp>
#include <zero/policy/make_schedule.hpp>
#include <zero/policy/precision.hpp>
#include <zero/schedule/cost.hpp>

namespace zero::plan {

/// Bytes of one element in each of its roles.
struct Accounting {
  std::string_view name;                                // as it is asked for
  std::size_t weight = 0, gradient = 0, optimizer = 0;  // held from step to step
  std::size_t whole_weight = 0, whole_gradient = 0;     // in slots, while a unit is whole
  std::size_t gathered = 0, reduced = 0;                // sent
  /// All together.
  constexpr std::size_t total() const { return weight + gradient + optimizer; }
};
/// What a module of these types holds and sends, if its optimizer keeps `states` numbers an
/// element.
constexpr Accounting accounting_of(const Precision& types, std::size_t states = 2) {
  const std::size_t gather = size_of(types.gather), sum = size_of(types.accumulate);
  const std::size_t kept = (types.has_master() ? 4 : 0) + states * size_of(types.moments);
  return {"of a module",          gather, sum,    kept,
          size_of(types.compute), sum,    gather, size_of(types.reduce)};
}
/// How the literature counts. Optimizer bytes are those of Adam: two fp32 moments, and a master.
///
/// Source:  Rajbhandari et al., ZeRO, 2020, section 3.1 (16); Megatron-LM, distributed optimizer
///          (18 for bf16 with fp32 gradients; 20 for fp16, whose fp32 copies of gradients belong to
///          the optimizer; 16 for fp32); Zhao et al., PyTorch FSDP, 2023 (fp32 shards that are cast
///          before they are gathered).
inline constexpr Accounting accountings[] = {
    {"mixed-16", 2, 2, 12, 2, 2, 2, 2},
    {"no-master-12", 2, 2, 8, 2, 2, 2, 2},
    {"fp32-gradients-18", 2, 4, 12, 2, 4, 2, 4},
    {"fp32-copies-20", 2, 2, 16, 2, 2, 2, 2},
    {"fp32-16", 4, 4, 8, 4, 4, 4, 4},
    {"fsdp-bf16", 4, 4, 8, 2, 2, 2, 2},
    {"fsdp-fp32-reduce", 4, 4, 8, 2, 2, 2, 4},
};
/// The accounting of that name, or null.
constexpr const Accounting* find_accounting(std::string_view name) {
  for (const Accounting& accounting : accountings) {
    if (accounting.name == name) return &accounting;
  }
  return nullptr;
}
inline constexpr Accounting mixed_16 = accountings[0], no_master_12 = accountings[1],
                            fp32_gradients_18 = accountings[2], fp32_copies_20 = accountings[3],
                            fp32_16 = accountings[4], fsdp_bf16 = accountings[5],
                            fsdp_fp32_reduce = accountings[6];

/// Ranks as `shards` that hold parts of the same, and `replicas` of these groups.
struct MeshShape {
  std::size_t shards = 1, replicas = 1;  // ranks that share a model, and how often
  /// How many ranks.
  constexpr std::size_t devices() const { return shards * replicas; }
};

/// Elements of group g as it lies in memory: padded so that every part begins at 64 bytes
/// in any of its types.
constexpr std::size_t padded_elements(const ModelDescription& model, std::size_t g,
                                      const Schedule& schedule, const Accounting& bytes,
                                      MeshShape mesh) {
  const std::size_t parts = schedule.traits.shards_replicas ? mesh.devices() : mesh.shards;
  const std::size_t narrowest =
      std::min({bytes.whole_weight, bytes.gathered, bytes.reduced, bytes.gradient});
  const std::size_t multiple = parts * (64 / narrowest);
  return (model.elements(g) + multiple - 1) / multiple * multiple;
}

/// Bytes that one rank holds, the same on all ranks. Activations are a matter of their own.
struct Held {
  std::size_t weights = 0, gradients = 0, optimizer = 0;  // bytes that a rank holds
  std::size_t slots = 0;    // whole units while they compute, and their gradients
  std::size_t staging = 0;  // for casts, where what is sent has another type than what is held
  /// Without slots.
  constexpr std::size_t states() const { return weights + gradients + optimizer; }
  /// All together.
  constexpr std::size_t total() const { return states() + slots + staging; }
  friend constexpr bool operator==(const Held&, const Held&) = default;
};
/// Asks the footprint of a schedule.
constexpr Held bytes_held(const ModelDescription& model, const Schedule& schedule,
                          const Accounting& bytes, MeshShape mesh) {
  const auto elements = [&](std::size_t g) {
    return padded_elements(model, g, schedule, bytes, mesh);
  };
  const Footprint held = footprint(schedule, elements, mesh.shards, mesh.replicas);
  std::size_t home = 0, largest = 0;
  for (std::size_t g = 0; g < schedule.model.groups(); ++g) {
    if (schedule.home[g] != nowhere) home += elements(g);
    if (largest < elements(g)) largest = elements(g);
  }
  Held out;
  // What is always whole is held as it is kept, or as it computes if that is wider.
  const std::size_t whole = std::max(bytes.weight, bytes.whole_weight);
  out.weights = held[Space::params_shard] * bytes.weight + home * whole;
  out.slots = (held[Space::params_whole] - home) * bytes.whole_weight;
  out.gradients = held[Space::grads_shard] * bytes.gradient;
  if (schedule.traits.shards_grads) {
    out.slots += held[Space::grads_whole] * bytes.whole_gradient;
  } else {
    out.gradients += held[Space::grads_whole] * bytes.gradient;
  }
  out.optimizer = held[Space::optimizer] * bytes.optimizer;
  if (schedule.traits.shards_params && bytes.weight != bytes.gathered) {
    out.staging += largest / mesh.shards * bytes.gathered;
  }
  if (schedule.traits.shards_grads && bytes.whole_gradient != bytes.reduced) {
    out.staging += largest * bytes.reduced;
  }
  return out;
}

/// Bytes that one rank sends in one step, by operation and axis of the mesh.
struct Sent {
  std::size_t gather = 0, reduce_scatter = 0, all_reduce = 0;    // among the ranks of a replica
  std::size_t gather_replicas = 0, reduce_scatter_replicas = 0;  // across replicas
  std::size_t all_reduce_replicas = 0;                           // across replicas
  /// Bytes within a replica.
  constexpr std::size_t shard_axis() const { return gather + reduce_scatter + all_reduce; }
  /// Bytes across replicas.
  constexpr std::size_t replica_axis() const {
    return gather_replicas + reduce_scatter_replicas + all_reduce_replicas;
  }
  /// All together.
  constexpr std::size_t total() const { return shard_axis() + replica_axis(); }
  friend constexpr bool operator==(const Sent&, const Sent&) = default;
};
/// Asks the traffic of a schedule. The few bytes of agreement and norm are left out.
constexpr Sent bytes_sent(const ModelDescription& model, const Schedule& schedule,
                          const Accounting& bytes, MeshShape mesh) {
  const ElementsSent sent = traffic(
      schedule, [&](std::size_t g) { return padded_elements(model, g, schedule, bytes, mesh); },
      mesh.shards, mesh.replicas);
  Sent out;
  out.gather = sent.gathered * bytes.gathered;
  (schedule.traits.shards_optimizer ? out.reduce_scatter : out.all_reduce) =
      sent.reduced * bytes.reduced;
  (schedule.traits.shards_replicas ? out.reduce_scatter_replicas : out.all_reduce_replicas) =
      sent.replicated * bytes.reduced;
  out.gather_replicas = sent.gathered_replicas * bytes.gathered;
  return out;
}

/// Bytes that a rank of a mesh holds for a stage: a constant where the sizes are.
template <class StageType>
constexpr Held held_by_rank(const ModelDescription& model, MeshShape mesh,
                            const Accounting& bytes = mixed_16, std::size_t micro_steps = 1) {
  const Schedule schedule =
      make_schedule<StageType>(model.shape(), training(model.dims.layers + 2, micro_steps));
  return bytes_held(model, schedule, bytes, mesh);
}
/// Bytes that a rank of a mesh sends in a step of a stage.
template <class StageType>
constexpr Sent sent_by_rank(const ModelDescription& model, MeshShape mesh,
                            const Accounting& bytes = mixed_16, std::size_t micro_steps = 1) {
  const Schedule schedule =
      make_schedule<StageType>(model.shape(), training(model.dims.layers + 2, micro_steps));
  return bytes_sent(model, schedule, bytes, mesh);
}

}  // namespace zero::plan
