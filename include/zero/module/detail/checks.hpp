// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What is checked across ranks before a module's first step. May include comm/ and schedule/.
#pragma once
#include <array>
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
/// Of the weights that all ranks hold alike, and of those that the same rank of each replica holds.
using Checksums = std::array<std::uint64_t, 2>;

/// Whether a rank of the world holds other weights than those that must be the same. `sums` [rank].
template <class Comm>
bool replicas_differ(const Mesh<Comm>& mesh, const std::vector<Checksums>& sums) {
  for (std::size_t r = 0; r < mesh.world.size(); ++r) {
    if (sums[r][0] != sums[0][0] || sums[r][1] != sums[r % mesh.shard.size()][1]) return true;
  }
  return false;
}
/// Throws, on every rank, if they differ in one tensor.
template <class Comm>
void check_replicas(const Mesh<Comm>& mesh, const std::vector<Checksums>& sums, const char* call,
                    const std::string& tensor) {
  if (!replicas_differ(mesh, sums)) return;
  std::string differing, others;
  const auto name = [](std::string& list, std::size_t rank) {
    const std::string text = std::to_string(rank);
    if ((", " + list + ",").find(" " + text + ",") != std::string::npos) return;
    list += (list.empty() ? "" : ", ") + text;
  };
  for (std::size_t r = 0; r < mesh.world.size(); ++r) {
    const std::size_t others_of[] = {0, r % mesh.shard.size()};
    for (std::size_t kind = 0; kind < 2; ++kind) {
      const std::size_t other = others_of[kind];
      if (sums[r][kind] == sums[other][kind]) continue;
      name(differing, r);
      name(others, other);
    }
  }
  throw ContractError(std::string("zero: ") + call + ": rank " + differing +
                      " has other weights of tensor '" + tensor + "' than rank " + others +
                      ", though they must hold the same; initialize all ranks alike, or call "
                      "broadcast_weights() first (this is rank " +
                      std::to_string(mesh.world.rank()) + ")");
}

}  // namespace zero::detail
