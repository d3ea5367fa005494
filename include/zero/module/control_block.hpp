// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The size of what decides a step: what all ranks sum, and what a rank keeps for it. May include
// optim/ and layout/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <zero/base/list.hpp>
#include <zero/optim/norm.hpp>

namespace zero {

/// What the memory of Control depends on; the same on all ranks.
///
/// The block holds a head, the norm, the sums and squares of what each unit and the
/// optimizer say, and which tensors have a gradient. Of a further axis only the head and the norm
/// are summed, in the same memory.
struct ControlShape {
  static constexpr std::size_t head = 5;  // numbers in front

  std::size_t units = 0, tensors = 0, ranks = 1;  // of the model and the mesh
  double norm = 2;                    // its order; unless 2, each rank has a place for its part
  List<std::size_t> axes{};           // ranks of each further axis
  std::size_t groups = 0;             // that have gradients
  std::size_t coefficient_bytes = 0;  // of an optimizer, for one tensor
  std::size_t scratch = 0;            // numbers that a device needs to form a norm

  /// Notes of what ran: of each unit in each direction, and of the optimizer.
  std::size_t traces() const { return 2 * units + 1; }
  /// How many numbers the parts of a norm take.
  std::size_t parts(std::size_t of_ranks) const { return norm == 2 ? 1 : of_ranks; }
  /// Numbers in the block: a multiple of the ranks, so that each sums an equal part.
  std::size_t world_block() const {
    return round_up(head + parts(ranks) + 2 * traces() + tensors, ranks);
  }
  /// How many numbers ranks of a further axis sum up.
  std::size_t axis_block(std::size_t axis) const {
    return round_up(head + parts(axes[axis]), axes[axis]);
  }
  /// Numbers that the buffer holds.
  std::size_t block() const {
    std::size_t most = world_block();
    for (std::size_t a = 0; a < axes.size(); ++a) most = std::max(most, axis_block(a));
    return most;
  }
  /// Numbers that one rank sends in a step, in all_reduce.
  std::size_t sent() const {
    std::size_t sum = 2 * (world_block() / ranks) * (ranks - 1);
    for (std::size_t a = 0; a < axes.size(); ++a) {
      sum += 2 * (axis_block(a) / axes[a]) * (axes[a] - 1);
    }
    return sum;
  }

 private:
  static std::size_t round_up(std::size_t n, std::size_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
  }
};

}  // namespace zero
