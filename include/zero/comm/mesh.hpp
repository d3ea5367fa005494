// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The ranks of a world as replicas of a sharded model. Includes base/ and comm/communicator.hpp.
#pragma once

#include <cstddef>
#include <string>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/comm/communicator.hpp>

namespace zero {

/// `replicate.size()` replicas of a model, each sharded over `shard.size()` ranks.
/// Rank of the world = replica * shard.size() + shard.rank().
///
/// In a program with further axes, such as tensor or pipeline parallelism, the world is this rank's
/// line along the data-parallel axis, and `axes` are its lines along the others: each holds another
/// part of the model. Together they form a grid.
template <Communicator Comm>
struct Mesh {
  Comm world;                // all ranks
  Comm shard;                ///< the ranks of this replica
  Comm replicate;            ///< the ranks of the other replicas that hold the same shard
  std::vector<Comm> axes{};  ///< along each further axis; the norm and each decision span them

  /// This mesh with one more axis: zero::mesh(data).also(tensor). All ranks name them in one order.
  Mesh also(const Comm& axis) const {
    Mesh made = *this;
    made.axes.push_back(axis);
    return made;
  }
  /// Whether this rank stands for all others along the further axes, in what they have in common.
  bool first_of_axes() const {
    for (const Comm& axis : axes) {
      if (axis.rank() != 0) return false;
    }
    return true;
  }
};

/// One model sharded over all ranks. A collective.
template <Communicator Comm>
Mesh<Comm> mesh(const Comm& world) {
  return {world, world, world.split(static_cast<int>(world.rank()), 0)};
}

/// `replicas` models, each sharded over neighbouring ranks. A collective.
///
/// Errors: ContractError if `replicas` does not divide the number of ranks.
template <Communicator Comm>
Mesh<Comm> mesh(const Comm& world, std::size_t replicas) {
  if (replicas == 0 || world.size() % replicas != 0) {
    throw ContractError("mesh: " + std::to_string(world.size()) + " ranks do not make " +
                        std::to_string(replicas) +
                        " replicas of equal size. Pass a divisor of the number of ranks.");
  }
  if (replicas == 1) return mesh(world);
  const std::size_t shards = world.size() / replicas;
  const int replica = static_cast<int>(world.rank() / shards);
  const int shard = static_cast<int>(world.rank() % shards);
  return {world, world.split(replica, shard), world.split(shard, replica)};
}

}  // namespace zero
