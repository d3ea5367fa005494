// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A collective of one rank as a state machine that is polled. Includes
// comm/detail/{text,transfer}.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <zero/comm/detail/text.hpp>
#include <zero/comm/detail/transfer.hpp>

namespace zero::detail {

/// All collectives are one rendezvous: wait for the turn, publish the call, and for each phase
/// wait until all ranks have come as far, then work. A last wait keeps this rank's buffers alive
/// until no peer reads them.
class CollectiveTask {
 public:
  using Member = detail::Member;

  /// What Call::sum is for elements of T.
  template <class T>
  static constexpr auto sum_of() {
    return &sum_slots<T>;
  }

  CollectiveTask(std::shared_ptr<Member> member, const Call& call)
      : member_(std::move(member)),
        call_(call),
        ticket_(member_->issued.fetch_add(1)),
        number_(member_->history().issue(call)) {}

  CollectiveTask(CollectiveTask&& other) noexcept = default;
  CollectiveTask& operator=(CollectiveTask&&) = delete;

  /// Dropped before it was done: the peers must not wait for it.
  ~CollectiveTask() {
    if (member_ == nullptr || phase_ == done) return;
    try {
      world().fail(false, where() + why_dropped);
    } catch (...) { world().fail(false, "a collective was dropped before it was done"); }
    wait_for_readers();
  }

  /// Goes as far as the peers allow. True when done; throws when it cannot be done any more.
  bool operator()() {
    while (phase_ != done) {
      if (!ready()) {
        check();
        return false;
      }
      if (phase_ == 0) {
        publish();
      } else if (phase_ <= phases(call_.collective)) {
        work();
      } else {
        phase_ = done;
        member_->history().end(number_);
        member_->turn.store(ticket_ + 1);
        world().signal();
      }
      waiting_ = false;
      polls_ = 0;
    }
    return true;
  }

  /// Blocks until it is done.
  void wait() {
    for (unsigned i = 0; i < world().spins(); ++i) {
      if ((*this)()) return;
      cpu_pause();
    }
    for (unsigned i = 0; i < yields; ++i) {
      if ((*this)()) return;
      std::this_thread::yield();
    }
    // Bounds how late the end of the time limit is noticed.
    while (!(*this)()) pause(world().limit() / 8);
  }

  /// Sleeps until a peer has moved, for at most `limit`.
  void pause(std::chrono::nanoseconds limit) {
    polls_ = 0;
    world().sleep(limit, [this] { return ready() || world().failed() || anybody_gone(); });
  }

  std::string describe() const { return where(); }

 private:
  static constexpr unsigned yields = 100;
  static constexpr std::uint8_t done = 0xFF;

  Group& group() const { return member_->group(); }
  std::size_t ranks() const { return group().size(); }
  World& world() const { return group().world(); }
  Slot& slot() const { return group().slot(member_->rank()); }
  std::string where() const { return text_of(call_) + " " + member_->text(); }

  bool passed(std::size_t rank) const { return group().slot(rank).state.load() >= base_ + phase_; }

  bool ready() const {
    if (phase_ == 0) return member_->turn.load() == ticket_;
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      if (!passed(rank)) return false;
    }
    return true;
  }

  /// Will never pass. Asked again in the end, since a rank may finish and leave in between.
  bool gone(std::size_t rank) const {
    return phase_ != 0 && !passed(rank) && group().slot(rank).left.load() && !passed(rank);
  }

  bool anybody_gone() const {
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      if (gone(rank)) return true;
    }
    return false;
  }

  void publish() {
    base_ = slot().state.load();
    slot().call = call_;
    advance();
  }

  void work() {
    slot().reading.store(true);
    // One who fails waits afterwards for those who read: one of the two sees the other.
    if (!world().failed()) {
      try {
        if (phase_ == 1 && disagree(group())) {
          world().fail(false, text_of_disagreement(group()) + text_of_histories(world()));
        } else {
          Transfer(group(), member_->rank())(phase_);
        }
      } catch (const std::exception& error) { world().fail(false, error.what()); }
    }
    slot().reading.store(false);
    if (world().failed()) raise();
    advance();
  }

  void advance() {
    ++phase_;
    slot().state.store(base_ + phase_);
    world().signal();
  }

  /// Throws when waiting has become useless.
  void check() {
    if (world().failed()) raise();
    // The rest is looked at once in a while.
    if (polls_++ % 16 != 0) return;
    if (anybody_gone()) {
      fail(false,
           where() + ": " + text_of_ranks(ranks(), [this](auto r) { return gone(r); }) + why_left);
    }
    const World::Clock::time_point now = World::Clock::now();
    if (!waiting_) deadline_ = now + world().limit();
    waiting_ = true;
    if (now < deadline_) return;
    const std::string limit = " within " + std::to_string(world().limit().count()) + " ms";
    if (phase_ == 0) fail(true, where() + ": its turn did not come" + limit + why_no_turn);
    fail(true, where() + ": " + text_of_ranks(ranks(), [this](auto r) { return !passed(r); }) +
                   (phase_ == 1 ? " did not call it" : " did not finish it") + limit + why_late);
  }

  [[noreturn]] void fail(bool timeout, const std::string& what) {
    world().fail(timeout, what + text_of_histories(world()));
    raise();
  }

  [[noreturn]] void raise() {
    phase_ = done;
    wait_for_readers();
    world().raise(where());
  }

  /// Peers may still read this rank's buffers, which the caller will destroy.
  void wait_for_readers() const {
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      while (rank != member_->rank() && group().slot(rank).reading.load()) {
        std::this_thread::yield();
      }
    }
  }

  std::shared_ptr<Member> member_;
  Call call_;
  std::uint64_t ticket_;
  std::uint64_t number_;    // in the rank's history
  std::uint64_t base_ = 0;  // the slot's state before the call was published
  World::Clock::time_point deadline_{};
  std::uint8_t phase_ = 0;  // 0: before its turn; from phases() + 1: waits for readers
  std::uint8_t polls_ = 0;
  bool waiting_ = false;
};

// Streams store their tasks in slots of this size.
static_assert(sizeof(CollectiveTask) <= 128);

}  // namespace zero::detail
