// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What communicators split from one share: the first failure, the limit, how to wait.
// Includes base/, comm/detail/history.hpp and device/detail/futex.hpp.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <zero/base/error.hpp>
#include <zero/comm/detail/history.hpp>
#include <zero/device/detail/futex.hpp>

namespace zero::detail {

/// Ranks that depend on each other, through whatever communicators.
///
/// A failure ends all of them: a rank that waits in one communicator for a rank that failed in
/// another one would otherwise learn of it from nobody.
class World {
 public:
  using Clock = std::chrono::steady_clock;

  World(std::size_t ranks, std::chrono::milliseconds limit)
      : limit_(limit),
        spins_(ranks <= std::thread::hardware_concurrency() ? 1000 : 20),
        ranks_(ranks),
        histories_(std::make_unique<History[]>(ranks)) {}

  std::chrono::milliseconds limit() const { return limit_; }
  /// How often to look before the processor is given to others.
  unsigned spins() const { return spins_; }
  bool failed() const { return failed_.load(); }
  std::size_t ranks() const { return ranks_; }
  /// What a rank did last, on whatever communicators.
  History& history(std::size_t rank) const { return histories_[rank]; }

  /// Keeps the first failure and wakes everybody.
  void fail(bool timeout, std::string_view what) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (!failed_.load()) {
        try {
          what_ = what;
        } catch (...) {  // no memory: a failure without a text
        }
        timeout_ = timeout;
        failed_.store(true);
      }
    }
    wake();
  }

  /// Throws the failure as seen by one rank. Pre: failed().
  [[noreturn]] void raise(const std::string& where) const {
    const std::string text = what_.starts_with(where) ? what_ : where + " failed: " + what_;
    if (timeout_) throw TimeoutError(text);
    throw CommunicatorError(text);
  }

  /// To be called after every change that a waiting rank may wait for.
  void signal() noexcept {
    if (sleepers_.load() != 0) wake();
  }

  /// Sleeps until the next change, for at most `limit`, unless `awake()` is true already.
  template <class Awake>
  void sleep(std::chrono::nanoseconds limit, Awake awake) {
    sleepers_.fetch_add(1);
    // A change after this load makes the futex return at once; one before it is seen by awake.
    const std::uint32_t now = changes_.load();
    if (!awake()) futex_wait(changes_, now, limit);
    sleepers_.fetch_sub(1);
  }

 private:
  void wake() noexcept {
    changes_.fetch_add(1);
    futex_wake(changes_);
  }

  std::chrono::milliseconds limit_;
  unsigned spins_;
  std::size_t ranks_;
  std::unique_ptr<History[]> histories_;  // [rank of the world]
  std::atomic<bool> failed_{false};
  bool timeout_ = false;
  std::string what_;
  std::mutex mutex_;
  alignas(64) std::atomic<std::uint32_t> changes_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace zero::detail
