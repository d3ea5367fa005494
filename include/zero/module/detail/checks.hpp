// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What is checked across ranks before a module's first step. May include comm/ and schedule/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero::detail {

/// The communicators of a mesh must fit each other, and the stage must know of its replicas.
template <class Comm>
void check_mesh(const Mesh<Comm>& mesh, const StageTraits& traits) {
  const std::size_t ranks = mesh.shard.size(), replicas = mesh.replicate.size();
  if (ranks * replicas != mesh.world.size() ||
      mesh.replicate.rank() * ranks + mesh.shard.rank() != mesh.world.rank()) {
    throw ContractError(
        "zero::shard: the communicators of the mesh do not fit each other; make them with "
        "zero::mesh(comm, replicas)");
  }
  if (replicas == 1 || traits.replicates) return;
  throw ContractError("zero::shard: the mesh has " + std::to_string(replicas) +
                      " replicas, but the stage does not sum gradients over replicas; use "
                      "zero::HybridOf<...> of the stage, or zero::mesh(comm) without replicas");
}

/// The ranks must hold the same schedules, names and sizes before the first step. A collective.
template <class Comm>
void compare_across_ranks(const Comm& world, std::uint64_t hash) {
  std::vector<std::uint64_t> all(world.size());
  world.all_gather(&hash, all.data(), 1, Label{"compare schedules", "all units", 0});
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    throw ContractError("zero::shard: rank " + std::to_string(r) +
                        " has another model, stage or type of weights than rank 0 (schedule "
                        "hashes differ; this is rank " +
                        std::to_string(world.rank()) + "); give all ranks the same");
  }
}

}  // namespace zero::detail
