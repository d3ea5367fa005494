// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// StateLayout: where the optimizer's state of a group's tensors lies on each rank. May include
// base/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <zero/base/list.hpp>
#include <zero/layout/flat_layout.hpp>

namespace zero {

/// Where the numbers of each optimizer state lie that belong to the pieces of a FlatLayout. By
/// default one number an element, at the element's place.
///
/// A pure function of its arguments; holds no numbers.
class StateLayout {
 public:
  /// A part of what a rank keeps.
  struct Range {
    std::size_t begin, count;  // in what a rank keeps of the state
  };

  StateLayout() = default;
  /// Of blocks of so many elements, for each of which state k takes numbers[k].
  ///
  /// Pre:     shards and tensors of the FlatLayout begin at multiples of the block.
  StateLayout(std::size_t block, List<std::size_t> numbers)
      : block_(block), numbers_(std::move(numbers)) {}
  /// Of whole tensors, each on one rank; for tensor t, state k takes numbers[t * states + k].
  StateLayout(const FlatLayout& layout, std::size_t states, List<std::size_t> numbers)
      : block_(0), states_(states), numbers_(std::move(numbers)), begins_(numbers_), most_(states) {
    for (std::size_t k = 0; k < states; ++k) {
      for (std::size_t rank = 0; rank < layout.ranks(); ++rank) {
        std::size_t used = 0;
        layout.for_each_piece(rank, [&](const Piece& piece) {
          const std::size_t at = piece.tensor * states_ + k;
          begins_[at] = used;
          used += numbers_[at];
        });
        most_[k] = std::max(most_[k], used);
      }
    }
  }

  /// Whether each element has state of its own.
  bool of_elements() const { return block_ == 1; }
  /// Whether elements share state in blocks.
  bool of_blocks() const { return block_ > 1; }
  /// Numbers that every rank keeps of state k: enough for the rank that needs most.
  std::size_t shard(const FlatLayout& layout, std::size_t k) const {
    if (of_elements()) return layout.shard();
    const std::size_t most = of_blocks() ? layout.shard() / block_ * numbers_[k] : most_[k];
    return (most + 15) / 16 * 16;  // so that buffers leave no gap
  }
  /// What belongs to a piece of a rank's shard.
  Range range(const Piece& piece, std::size_t k) const {
    if (of_elements()) return {piece.shard_begin, piece.count};
    if (of_blocks()) {
      const std::size_t blocks = (piece.count + block_ - 1) / block_;
      return {piece.shard_begin / block_ * numbers_[k], blocks * numbers_[k]};
    }
    const std::size_t at = piece.tensor * states_ + k;
    return {begins_[at], numbers_[at]};
  }
  /// Numbers of state k that a reader sees of a tensor of the group: one an element, unless tensors
  /// are whole.
  std::size_t numbers(const FlatLayout& layout, std::size_t tensor, std::size_t k) const {
    const bool own = block_ == 0 && k < states_;
    return own ? numbers_[tensor * states_ + k] : layout.tensor_size(tensor);
  }

 private:
  std::size_t block_ = 1, states_ = 0;  // block 0: tensors are whole
  List<std::size_t> numbers_, begins_, most_;
};

}  // namespace zero
