// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A number that only grows and can be waited for, a small lock, and the patience of who waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <zero/device/detail/futex.hpp>

namespace zero::detail {

/// A 64-bit number that only grows. Growing it costs no system call while nobody sleeps for the
/// value that it reaches. Any number of threads may wait; one at a time may advance it.
class Counter {
 public:
  std::uint64_t value() const { return value_.load(std::memory_order_acquire); }

  void advance(std::uint64_t value) {
    value_.store(value, std::memory_order_seq_cst);
    if (wanted_.load(std::memory_order_seq_cst) <= value) wake();
  }

  /// Makes everybody who sleeps look again.
  void wake() {
    wanted_.store(nothing, std::memory_order_seq_cst);
    word_.fetch_add(1, std::memory_order_seq_cst);
    futex_wake(word_);
  }

  /// Sleeps until the value reaches `target`, wake() is called or `limit` is over. `interrupted`
  /// says whether there is another reason not to sleep; who makes it true calls wake() after.
  template <class Interrupted>
  void sleep(std::uint64_t target, std::chrono::nanoseconds limit, Interrupted interrupted) {
    // The word is read before the wish is announced, so that whoever clears the wish changes the
    // word after that; then the value is looked at last.
    const std::uint32_t word = word_.load(std::memory_order_seq_cst);
    std::uint64_t wanted = wanted_.load(std::memory_order_seq_cst);
    while (target < wanted &&
           !wanted_.compare_exchange_weak(wanted, target, std::memory_order_seq_cst)) {}
    if (value_.load(std::memory_order_seq_cst) >= target || interrupted()) return;
    futex_wait(word_, word, limit);
  }

 private:
  static constexpr std::uint64_t nothing = UINT64_MAX;

  std::atomic<std::uint64_t> value_{0};
  std::atomic<std::uint64_t> wanted_{nothing};  // the smallest value that somebody sleeps for
  std::atomic<std::uint32_t> word_{0};
};

/// A lock for a few instructions.
class SpinLock {
 public:
  void lock() {
    while (locked_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  }
  void unlock() { locked_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> locked_{false};
};

/// How long somebody has waited without a sign of life: first spins, then sleeps in short slices.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  /// Spins a little and returns true, or returns false when it is time to sleep.
  bool spin() {
    if (tired_) return false;
    if (++spins_ % spins_a_look == 0) {
      const auto now = Clock::now();
      if (spins_ == spins_a_look) began_ = now;
      tired_ = now - began_ > longest;
    }
    cpu_pause();
    return true;
  }

  bool tired() const { return tired_; }
  void renew() { since_ = unset; }

  /// Whether `limit` has passed since the first call, or since the first call after renew().
  bool over(std::chrono::nanoseconds limit) {
    const auto now = Clock::now();
    if (since_ == unset) since_ = now;
    return now - since_ > limit;
  }

 private:
  // In time, as what is polled between two spins may take long.
  static constexpr std::chrono::microseconds longest{4};
  static constexpr unsigned spins_a_look = 16;
  static constexpr Clock::time_point unset = Clock::time_point::min();

  Clock::time_point since_ = unset, began_{};
  unsigned spins_ = 0;
  bool tired_ = false;
};

}  // namespace zero::detail
