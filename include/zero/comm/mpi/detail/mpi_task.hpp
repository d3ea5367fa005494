// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A collective of one rank over MPI as a state machine that is polled. Includes
// comm/mpi/detail/mpi_member.hpp and device/detail/task.hpp.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zero/comm/mpi/detail/mpi_member.hpp>
#include <zero/device/detail/futex.hpp>
#include <zero/device/detail/task.hpp>

namespace zero::detail {

/// What a rank passes to split, and what it gets: the ranks of equal color, ordered by key.
struct MpiSplit {
  int color = 0, key = 0;
  std::shared_ptr<MpiMember> member = {};
};

/// All collectives begin alike: wait for the turn, then exchange headers with all peers, which is
/// a barrier and shows whether all ranks mean the same. Then elements move.
class MpiTask {
 public:
  using Member = MpiMember;

  /// Sums find their type when they run.
  template <class T>
  static constexpr auto sum_of() {
    return nullptr;
  }

  MpiTask(std::shared_ptr<MpiMember> member, const Call& call)
      : member_(std::move(member)),
        call_(call),
        ticket_(member_->issued.fetch_add(1)),
        number_(world().note(member_->world_rank(member_->rank()), call)) {}
  MpiTask(MpiTask&& other) noexcept = default;
  MpiTask& operator=(MpiTask&&) = delete;

  /// Dropped before it was done: the peers must not wait for it.
  ~MpiTask() {
    if (member_ == nullptr || phase_ == done) return;
    try {
      world().fail(false, where() + why_dropped);
    } catch (...) { world().fail(false, "a collective was dropped before it was done"); }
  }

  /// Goes as far as the peers allow; throws when it cannot be done any more.
  Poll operator()() {
    if (phase_ == done) return Poll::ready;
    bool moved = false;
    try {
      world().poll();
      while (!world().failed() && advance(moved)) {
        if (phase_ == done) return Poll::ready;
      }
    } catch (const std::exception& error) { world().fail(false, where() + ": " + error.what()); }
    if (world().failed()) raise();
    check_time(moved);
    return moved ? Poll::moving : Poll::busy;
  }

  /// Blocks until it is done.
  void wait() {
    for (;;) {
      const Poll poll = (*this)();
      if (poll == Poll::ready) return;
      if (poll == Poll::moving) polls_ = 0;
      pause(world().limit() / 8);
    }
  }

  /// MPI wakes nobody up: a few polls at once, then the processor goes to others, then sleep.
  void pause(std::chrono::nanoseconds limit) {
    polls_ = static_cast<std::uint16_t>(std::min(polls_ + 1, 1000));
    if (polls_ < 100) return cpu_pause();
    if (polls_ < 200) return std::this_thread::yield();
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(limit, default_pause));
  }

  std::string describe() const { return where(); }

 private:
  static constexpr std::uint8_t done = 0xFF;
  // 0: before its turn; 1: headers; 1 + p: phase p of the transfer.

  MpiWorld& world() const { return member_->world(); }
  std::string where() const { return text_of(call_) + " " + member_->text(); }

  /// Takes one step if it is possible; notes whether anything has moved.
  bool advance(bool& moved) {
    if (phase_ == 0) {
      if (member_->turn.load() != ticket_) return false;
      member_->exchange(header());
    } else if (phase_ == 1) {
      if (!member_->all_exchanged()) return false;
      world().poll();  // peers that were tired of waiting for this rank said so after their headers
      if (world().failed() || !agreed()) return false;
    } else {
      moved |= member_->transfer().advance();
      if (!member_->transfer().done()) return false;
    }
    moved = true;
    if (phase_ != 0 && phase_ == 1 + mpi_phases(call_.collective)) {
      end();
    } else {
      if (phase_ != 0) member_->transfer().begin(call_, phase_);
      ++phase_;
    }
    return true;
  }

  MpiHeader header() const {
    MpiHeader header;
    header.set(call_);
    if (call_.collective == Collective::split) {
      const MpiSplit& split = *static_cast<const MpiSplit*>(call_.out);
      header.color = split.color;
      header.key = split.key;
      header.next_group = world().next_group();
    }
    return header;
  }

  /// Whether all ranks called the same; else this is a failure.
  bool agreed() {
    const auto left = [this](std::size_t r) { return member_->header(r).leaves; };
    std::string what;
    bool any_left = false;
    std::size_t other = 0;
    for (std::size_t r = 0; r < member_->size(); ++r) {
      any_left = any_left || left(r);
      if (member_->header(r).message_elements != member_->header(0).message_elements) other = r;
    }
    if (any_left) {
      what = where() + ": " + text_of_ranks(member_->size(), left) + why_left;
    } else if (disagree(*member_)) {
      what = text_of_disagreement(*member_);
    } else if (other != 0) {
      what = "MpiOptions::message_elements is " +
             std::to_string(member_->header(0).message_elements) + " on rank 0, but " +
             std::to_string(member_->header(other).message_elements) + " on rank " +
             std::to_string(other) + ". Pass the same options on every rank.";
    }
    if (what.empty()) return true;
    world().fail(false, what);
    return false;
  }

  void end() {
    if (call_.collective == Collective::split) split();
    member_->note_end(number_);
    phase_ = done;
    member_->turn.store(ticket_ + 1);
  }

  void split() {
    MpiSplit& mine = *static_cast<MpiSplit*>(call_.out);
    std::uint32_t number = 0;
    std::vector<std::pair<int, std::size_t>> order;  // key and rank of those with this color
    for (std::size_t r = 0; r < member_->size(); ++r) {
      const MpiHeader& header = member_->header(r);
      number = std::max(number, header.next_group);
      if (header.color == mine.color) order.emplace_back(header.key, r);
    }
    world().use_group(number);
    std::sort(order.begin(), order.end());
    std::vector<std::size_t> ranks;
    std::size_t rank = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order[i].second == member_->rank()) rank = i;
      ranks.push_back(member_->world_rank(order[i].second));
    }
    mine.member =
        std::make_shared<MpiMember>(member_->shared_world(), std::move(ranks), rank, number);
  }

  /// Gives up when nothing has moved for too long.
  void check_time(bool moved) {
    const MpiWorld::Clock::time_point now = MpiWorld::Clock::now();
    if (moved || !waiting_) deadline_ = now + world().limit();
    waiting_ = true;
    if (now < deadline_) return;
    const std::string limit = " within " + std::to_string(world().limit().count()) + " ms";
    std::string what = where() + ": ";
    if (phase_ == 0) {
      what += "its turn did not come" + limit + why_no_turn;
    } else if (phase_ == 1) {
      const auto late = [this](std::size_t r) { return !member_->exchanged(r); };
      what += text_of_ranks(member_->size(), late) + " did not call it" + limit + why_late;
    } else {
      const auto late = [this](std::size_t r) { return !member_->transfer().done(r); };
      what += text_of_ranks(member_->size(), late) + " did not finish it" + limit + why_late;
    }
    world().fail(true, what);
    raise();
  }

  [[noreturn]] void raise() {
    phase_ = done;
    world().raise(where());
  }

  std::shared_ptr<MpiMember> member_;
  Call call_;
  std::uint64_t ticket_;
  std::uint64_t number_;  // in the rank's history
  MpiWorld::Clock::time_point deadline_{};
  std::uint8_t phase_ = 0;
  std::uint16_t polls_ = 0;
  bool waiting_ = false;
};

}  // namespace zero::detail
