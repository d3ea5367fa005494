// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What each collective copies and sums, seen from one rank, once all ranks have published their
// calls. Includes comm/detail/{group,reduce}.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <zero/comm/detail/group.hpp>
#include <zero/comm/detail/reduce.hpp>

namespace zero::detail {

/// Phases of work; all ranks end one before any begins the next.
constexpr unsigned phases(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::split ? 2 : 1;
}

/// The sum over ranks of [begin, begin + count) for elements of T, as Call::sum.
template <Element T>
void sum_slots(const Call& call, const Slot* slots, std::size_t ranks, std::size_t begin,
               std::size_t count, void* out) {
  const auto source = [&](std::size_t rank) {
    return static_cast<const T*>(slots[rank].call.in) + begin;
  };
  sum_over_ranks(source, ranks, static_cast<T*>(out), count, call.accumulate, call.reduction);
}

/// What a rank passes to split, and what it gets: the ranks of equal color, ordered by key.
struct Split {
  int color = 0;
  int key = 0;
  std::size_t rank = 0;
  std::shared_ptr<Group> group = {};
};

/// The transfers of one rank.
class Transfer {
 public:
  Transfer(const Group& group, std::size_t rank)
      : group_(group), rank_(rank), ranks_(group.size()), call_(group.slot(rank).call) {}

  void operator()(unsigned phase) const {
    switch (call_.collective) {
      case Collective::all_gather: return gather();
      case Collective::reduce_scatter: return reduce(rank_ * call_.count, call_.count, 0);
      case Collective::all_reduce:
        return phase == 1 ? reduce(chunk(rank_), chunk(rank_ + 1) - chunk(rank_), chunk(rank_))
                          : collect();
      case Collective::broadcast: return receive();
      case Collective::barrier: return;
      case Collective::split: return phase == 1 ? make_group() : join_group();
    }
  }

 private:
  const Call& call(std::size_t rank) const { return group_.slot(rank).call; }
  std::byte* out() const { return static_cast<std::byte*>(call_.out); }

  /// Where rank's part of an all_reduce begins.
  std::size_t chunk(std::size_t rank) const {
    return rank * (call_.count / ranks_) + std::min(rank, call_.count % ranks_);
  }

  void copy(std::size_t owner, const void* from, std::byte* to, std::size_t bytes) const {
    if (bytes == 0 || from == to) return;
    std::memcpy(to, from, bytes);
    if (owner != rank_) group_.count_moved(call_.collective, rank_, owner, bytes);
  }

  // Each rank begins with its own part, so that not all read from the same one.
  template <class F>
  void for_each_rank(F f) const {
    for (std::size_t rank = rank_; rank < ranks_; ++rank) f(rank);
    for (std::size_t rank = 0; rank < rank_; ++rank) f(rank);
  }

  void gather() const {
    const std::size_t bytes = call_.bytes();
    for_each_rank(
        [&](std::size_t r) { this->copy(r, this->call(r).in, this->out() + r * bytes, bytes); });
  }

  void reduce(std::size_t begin, std::size_t count, std::size_t out_begin) const {
    const std::size_t size = size_of(call_.type);
    if (count == 0) return;
    call_.sum(call_, group_.slots(), ranks_, begin, count, out() + out_begin * size);
    for (std::size_t r = 0; r < ranks_; ++r) {
      if (r != rank_) group_.count_moved(call_.collective, rank_, r, count * size);
    }
  }

  void collect() const {
    const std::size_t size = size_of(call_.type);
    for_each_rank([&](std::size_t r) {
      const std::size_t begin = this->chunk(r) * size;
      const auto* from = static_cast<const std::byte*>(this->call(r).out) + begin;
      this->copy(r, from, this->out() + begin, this->chunk(r + 1) * size - begin);
    });
  }

  void receive() const {
    copy(call_.root, call(call_.root).in, out(), rank_ == call_.root ? 0 : call_.bytes());
  }

  Split& split(std::size_t rank) const { return *static_cast<Split*>(call(rank).out); }

  void make_group() const {
    Split& mine = split(rank_);
    std::size_t size = 0;
    bool first = true;  // the lowest of the ranks of this color makes what they share
    for (std::size_t r = 0; r < ranks_; ++r) {
      const Split& other = split(r);
      if (other.color != mine.color) continue;
      ++size;
      if (r < rank_) first = false;
      if (std::pair(other.key, r) < std::pair(mine.key, rank_)) ++mine.rank;
    }
    if (first) mine.group = std::make_shared<Group>(group_.shared_world(), size);
  }

  void join_group() const {
    Split& mine = split(rank_);
    std::size_t first = 0;
    while (split(first).color != mine.color) ++first;
    if (first != rank_) mine.group = split(first).group;
  }

  const Group& group_;
  std::size_t rank_;
  std::size_t ranks_;
  const Call& call_;
};

}  // namespace zero::detail
