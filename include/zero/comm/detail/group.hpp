// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What the ranks of one communicator share in memory. Includes comm/detail/{call,world}.hpp.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <zero/comm/detail/call.hpp>
#include <zero/comm/detail/world.hpp>

namespace zero::detail {

/// What one rank shows to its peers.
struct alignas(64) Slot {
  /// Grows by 1 with each phase that the rank has passed.
  std::atomic<std::uint64_t> state{0};
  /// Written before `state` announces it, read until the last phase of the collective.
  Call call{};
  /// Whether the rank reads its peers' buffers now. Apart, since nobody polls it.
  alignas(64) std::atomic<bool> reading{false};
  std::atomic<bool> left{false};
};

/// Bytes that one rank has read from another, by collective. Only the reader writes them.
struct alignas(64) Moved {
  std::array<std::atomic<std::uint64_t>, 4> bytes{};
};

/// The shared part of a communicator.
class Group {
 public:
  Group(std::shared_ptr<World> world, std::size_t size)
      : world_(std::move(world)),
        size_(size),
        slots_(std::make_unique<Slot[]>(size)),
        moved_(std::make_unique<Moved[]>(size * size)) {}

  World& world() const { return *world_; }
  const std::shared_ptr<World>& shared_world() const { return world_; }
  std::size_t size() const { return size_; }
  Slot& slot(std::size_t rank) const { return slots_[rank]; }
  const Slot* slots() const { return slots_.get(); }
  const Call& call(std::size_t rank) const { return slots_[rank].call; }

  void count_moved(Collective collective, std::size_t reader, std::size_t owner,
                   std::size_t bytes) const {
    auto& total = moved_[reader * size_ + owner].bytes[static_cast<std::size_t>(collective)];
    total.store(total.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }

  Traffic sent(std::size_t owner) const {
    const auto sum = [&](Collective collective) {
      std::uint64_t bytes = 0;
      for (std::size_t reader = 0; reader < size_; ++reader) {
        const Moved& moved = moved_[reader * size_ + owner];
        bytes += moved.bytes[static_cast<std::size_t>(collective)].load(std::memory_order_relaxed);
      }
      return bytes;
    };
    return {sum(Collective::all_gather), sum(Collective::reduce_scatter),
            sum(Collective::all_reduce), sum(Collective::broadcast)};
  }

 private:
  std::shared_ptr<World> world_;
  std::size_t size_;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<Moved[]> moved_;
};

/// One rank of a communicator. Its end tells the peers that this rank has left.
class alignas(64) Member {
 public:
  Member(std::shared_ptr<Group> group, std::size_t rank, std::size_t world_rank)
      : group_(std::move(group)), rank_(rank), world_rank_(world_rank) {}
  ~Member() {
    group_->slot(rank_).left.store(true);
    group_->world().signal();
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  Group& group() const { return *group_; }
  std::size_t rank() const { return rank_; }
  std::size_t world_rank() const { return world_rank_; }
  std::size_t size() const { return group_->size(); }
  Traffic sent() const { return group_->sent(rank_); }
  void fail(bool timeout, std::string_view what) noexcept { group_->world().fail(timeout, what); }
  History& history() const { return group_->world().history(world_rank_); }
  /// "on rank 1 of 4"
  std::string text() const {
    return "on rank " + std::to_string(rank_) + " of " + std::to_string(group_->size());
  }

  // Collectives take a ticket when they are issued and run in the order of tickets.
  std::atomic<std::uint64_t> issued{0};
  std::atomic<std::uint64_t> turn{0};

 private:
  std::shared_ptr<Group> group_;
  std::size_t rank_, world_rank_;  // of this communicator; of that which all were split from
};

}  // namespace zero::detail
