// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What is checked across ranks before a module's first step, and when its program changes. May
// include comm/, schedule/, module/.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/detail/program_check.hpp>
#include <zero/schedule/hash.hpp>
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
  List<std::uint64_t> all(world.size());
  world.all_gather(&hash, all.data(), 1, Label{"compare schedules", "all units", 0});
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r] == all[0]) continue;
    throw ContractError(
        "zero::shard: rank " + std::to_string(r) +
        " has another model, stage, type of weights or options than rank 0 (schedule "
        "hashes differ; this is rank " +
        std::to_string(world.rank()) + "); give all ranks the same");
  }
}
/// Of the weights that all ranks hold alike, and of those that the same rank of each replica holds.
using Checksums = std::array<std::uint64_t, 2>;

/// Whether a rank of the world holds other weights than those that must be the same. `sums` [rank].
template <class Comm>
bool replicas_differ(const Mesh<Comm>& mesh, const List<Checksums>& sums) {
  for (std::size_t r = 0; r < mesh.world.size(); ++r) {
    if (sums[r][0] != sums[0][0] || sums[r][1] != sums[r % mesh.shard.size()][1]) return true;
  }
  return false;
}
/// Throws, on every rank, if they differ in one tensor.
template <class Comm>
void check_replicas(const Mesh<Comm>& mesh, const List<Checksums>& sums, const char* call,
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

/// The first compute that is another one on another rank than on rank 0, as text. A collective.
template <class Comm>
std::string first_difference(const Comm& world, const char* call, const ParameterTable& parameters,
                             const Program& program) {
  const Label label{"the programs", call, 0};
  List<std::uint64_t> sizes(world.size());
  const std::uint64_t size = program.computes.size();
  world.all_gather(&size, sizes.data(), 1, label);
  const std::size_t most = *std::max_element(sizes.begin(), sizes.end());
  List<std::uint64_t> mine(most, 0), all(most * world.size());
  for (std::size_t i = 0; i < size; ++i) {
    const Compute& c = program.computes[i];
    mine[i] = static_cast<std::uint64_t>(c.op) << 48U | std::uint64_t{c.use} << 32U |
              std::uint64_t{c.micro_step} << 16U | c.unit;
  }
  world.all_gather(mine.data(), all.data(), most, label);
  const auto text = [&](std::uint64_t c) {
    if (c == 0) return std::string("nothing");
    return text_of(parameters, {static_cast<Op>(c >> 48U), static_cast<Index>(c),
                                static_cast<Index>(c >> 16U), static_cast<Index>(c >> 32U)});
  };
  for (std::size_t i = 0; i < most; ++i) {
    for (std::size_t r = 1; r < world.size(); ++r) {
      if (all[i] == all[r * most + i]) continue;
      return "compute " + std::to_string(i) + " is " + text(all[i]) + " on rank 0, but " +
             text(all[r * most + i]) + " on rank " + std::to_string(r);
    }
  }
  return "they differ in their micro-steps";
}
/// The ranks must have planned the same schedule. A collective; allocates only for an error.
///
/// Errors: ContractError on every rank, with the first compute that differs.
template <class Comm>
void compare_programs(const Comm& world, const char* call, const ParameterTable& parameters,
                      const Schedule& schedule, List<std::uint64_t>& hashes) {
  const std::uint64_t mine = hash(schedule);
  world.all_gather(&mine, hashes.data(), 1, Label{"a new program", call, 0});
  if (std::all_of(hashes.begin(), hashes.end(), [&](auto h) { return h == hashes[0]; })) return;
  throw ContractError(std::string("zero: ") + call + ": the ranks gave different programs: " +
                      first_difference(world, call, parameters, schedule.program) +
                      "; give all ranks the same (this is rank " + std::to_string(world.rank()) +
                      ")");
}

}  // namespace zero::detail
