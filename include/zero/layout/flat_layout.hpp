// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// FlatLayout: which element of a group of tensors lies where on which rank. May include base/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>

namespace zero {

/// A part of one tensor that lies in one rank's shard without a gap. Counts are elements.
struct Piece {
  std::size_t tensor;        // which tensor of the group
  std::size_t tensor_begin;  // where the piece begins in the tensor
  std::size_t shard_begin;   // where it begins in the shard
  std::size_t count;         // never 0
  friend constexpr bool operator==(const Piece&, const Piece&) = default;
};

/// Where shards may end.
enum class Cut {
  anywhere,        // shards are as equal as the alignment allows
  between_tensors  // each tensor lies on one rank, its owner; shards are as small as that allows
};

/// Puts tensors one after the other, each at a multiple of `alignment`, and cuts the whole into one
/// shard of equal size per rank. What lies between and behind the tensors is padding.
///
/// A pure function of sizes, ranks and alignment; holds no elements.
///
/// Units:   elements. For tensors to begin at 16 bytes the alignment is 16 / sizeof(element).
/// Errors:  ContractError for no ranks, alignment 0, or more than max_elements with padding.
class FlatLayout {
 public:
  /// Small enough that sizes in bytes fit 64 bits as well.
  static constexpr std::size_t max_elements = std::size_t{1} << 58;

  /// No tensors, on one rank.
  constexpr FlatLayout() = default;
  /// Lays tensors of these sizes one after another over the ranks.
  constexpr FlatLayout(std::span<const std::size_t> tensor_sizes, std::size_t ranks,
                       std::size_t alignment, Cut cut = Cut::anywhere)
      : ranks_(ranks), sizes_(tensor_sizes.begin(), tensor_sizes.end()) {
    if (ranks == 0 || alignment == 0) {
      throw ContractError("zero::FlatLayout: ranks and alignment must be at least 1, but are " +
                          std::to_string(ranks) + " and " + std::to_string(alignment) +
                          "; pass both");
    }
    // Every number stays below 2^63, since what is added or rounded up is at most 2^58.
    bool fits = ranks <= max_elements && alignment <= max_elements / ranks;
    std::size_t end = 0;
    offsets_.reserve(sizes_.size());
    for (std::size_t i = 0; i < sizes_.size() && fits; ++i) {
      offsets_.push_back(end);
      elements_ += sizes_[i];
      fits = sizes_[i] <= max_elements;
      if (fits) end = round_up(end + sizes_[i], alignment);
      fits = fits && end <= max_elements;
    }
    if (fits && cut == Cut::between_tensors) {
      fits = place_between(alignment);
    } else if (fits) {
      padded_ = round_up(end, ranks * alignment);
    }
    if (!fits || padded_ > max_elements) {
      throw ContractError("zero::FlatLayout: a group of " + std::to_string(sizes_.size()) +
                          " tensors on " + std::to_string(ranks) + " ranks, aligned to " +
                          std::to_string(alignment) +
                          ", has more than 2^58 elements with its padding; split it");
    }
  }

  /// Over how many it is laid.
  constexpr std::size_t ranks() const { return ranks_; }
  /// How many there are.
  constexpr std::size_t tensors() const { return sizes_.size(); }
  /// Elements of a tensor.
  constexpr std::size_t tensor_size(std::size_t tensor) const { return sizes_[tensor]; }
  /// Where the tensor begins in the whole.
  constexpr std::size_t tensor_offset(std::size_t tensor) const { return offsets_[tensor]; }
  /// Elements of all tensors, without padding.
  constexpr std::size_t elements() const { return elements_; }
  /// Elements of the whole with padding: the smallest multiple of ranks * alignment that suffices.
  constexpr std::size_t padded() const { return padded_; }
  /// Elements of one shard with padding: padded() / ranks(). Rank r's begins at r * shard().
  constexpr std::size_t shard() const { return padded_ / ranks_; }

  /// The pieces of one rank's shard, in order: a range that is computed while it is walked.
  class Pieces {
   public:
    /// Goes from piece to piece.
    class Iterator {
     public:
      /// From the piece at `begin` to the end of the rank's part.
      constexpr Iterator(const FlatLayout& layout, std::size_t begin, std::size_t end)
          : layout_(&layout), begin_(begin), end_(end) {
        // Of the tensors that begin before the shard only the last can reach into it.
        const auto& offsets = layout.offsets_;
        const auto inside = std::lower_bound(offsets.begin(), offsets.end(), begin);
        tensor_ = static_cast<std::size_t>(inside - offsets.begin());
        if (tensor_ > 0) --tensor_;
        skip_empty();
      }
      /// The piece that it is at.
      constexpr Piece operator*() const {
        const std::size_t from = first(), offset = layout_->offsets_[tensor_];
        return {tensor_, from - offset, from - begin_, last() - from};
      }
      /// Goes to the next piece.
      constexpr Iterator& operator++() {
        ++tensor_;
        skip_empty();
        return *this;
      }
      /// Whether there are no more pieces.
      constexpr bool operator==(std::default_sentinel_t) const {
        return tensor_ == layout_->tensors() || layout_->offsets_[tensor_] >= end_;
      }

     private:
      constexpr std::size_t first() const { return std::max(layout_->offsets_[tensor_], begin_); }
      constexpr std::size_t last() const {
        return std::min(layout_->offsets_[tensor_] + layout_->sizes_[tensor_], end_);
      }
      constexpr void skip_empty() {
        while (*this != std::default_sentinel && first() >= last()) ++tensor_;
      }
      const FlatLayout* layout_;
      std::size_t begin_, end_, tensor_;
    };

    /// The pieces of one rank.
    constexpr Pieces(const FlatLayout& layout, std::size_t rank) : layout_(&layout), rank_(rank) {}
    /// The first piece.
    constexpr Iterator begin() const {
      return {*layout_, rank_ * layout_->shard(), (rank_ + 1) * layout_->shard()};
    }
    /// Behind the last.
    constexpr std::default_sentinel_t end() const { return {}; }

   private:
    const FlatLayout* layout_;
    std::size_t rank_;
  };

  /// The pieces of tensors that lie in the shard of `rank`, in order, none of them empty. Allocates
  /// nothing; the layout must outlive the range.
  constexpr Pieces pieces(std::size_t rank) const {
    if (rank >= ranks_) {
      throw ContractError("zero::FlatLayout::pieces: expected a rank below " +
                          std::to_string(ranks_) + ", got " + std::to_string(rank));
    }
    return {*this, rank};
  }
  /// Calls f(piece) for each piece of `rank`, in order.
  template <class F>
  constexpr void for_each_piece(std::size_t rank, F f) const {
    for (const Piece piece : pieces(rank)) f(piece);
  }
  /// Elements of tensors in the shard of `rank`, without padding; 0 if it holds none.
  constexpr std::size_t owned(std::size_t rank) const {
    std::size_t sum = 0;
    for (const Piece piece : pieces(rank)) sum += piece.count;
    return sum;
  }

 private:
  /// Moves tensors that a border would cut behind it; false if the whole becomes too large.
  constexpr bool place_between(std::size_t alignment) {
    std::size_t low = 0, high = 0;  // the smallest shard that suffices lies between
    for (const std::size_t size : sizes_) {
      const std::size_t room = round_up(size, alignment);
      if (low < room) low = room;
      high += room;
    }
    if (high > max_elements / ranks_) high = max_elements / ranks_ / alignment * alignment;
    if (low > high) return false;
    while (low < high) {
      const std::size_t middle = low + (high - low) / alignment / 2 * alignment;
      if (fill(middle, alignment)) {
        high = middle;
      } else {
        low = middle + alignment;
      }
    }
    padded_ = ranks_ * low;
    return fill(low, alignment);
  }
  /// Places tensors in order into shards of this size; false if they need more than there are.
  constexpr bool fill(std::size_t shard, std::size_t alignment) {
    std::size_t rank = 0, used = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      const std::size_t room = round_up(sizes_[i], alignment);
      if (used + room > shard) {
        ++rank;
        used = 0;
      }
      if (room > 0 && rank >= ranks_) return false;
      offsets_[i] = rank * shard + used;
      used += room;
    }
    return true;
  }
  static constexpr std::size_t round_up(std::size_t n, std::size_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
  }

  std::size_t ranks_ = 1, elements_ = 0, padded_ = 0;
  List<std::size_t> sizes_, offsets_;
};

}  // namespace zero
