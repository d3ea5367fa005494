// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How the host waits for a CUDA device, and who looks on. Includes base/ and device/detail/.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/device/cuda/detail/check.hpp>

namespace zero::detail {

/// Somebody whose work on a device may never end, such as the communicators of a rank: asked again
/// and again while the host waits for that device, by any thread.
class HostWatch {
 public:
  virtual ~HostWatch() = default;

  /// Throws if it has failed: always, or to those who are `waiting` once only, since what they wait
  /// for ends nevertheless. Returns a number that grows with each sign of life.
  virtual std::uint64_t look(bool waiting) = 0;
  /// The time is over while the host waits for `what`: makes look() throw a TimeoutError, and the
  /// device's work end.
  virtual void expire(const std::string& what) noexcept = 0;
};

/// What the streams and events of a CudaDevice share. It outlives them all.
class CudaState {
 public:
  using Clock = std::chrono::steady_clock;

  CudaState(int ordinal, std::chrono::milliseconds limit) : ordinal_(ordinal), limit_(limit) {}

  int ordinal() const { return ordinal_; }
  std::chrono::milliseconds limit() const { return limit_; }

  /// From now on `watch` looks on whenever the host waits. Allocates the first time only.
  void attach(const std::shared_ptr<HostWatch>& watch) {
    const std::lock_guard lock(mutex_);
    for (Watched& known : watches_) {
      if (known.key != watch.get()) continue;
      if (known.watch.expired()) known.watch = watch;
      return;
    }
    std::erase_if(watches_, [](const Watched& known) { return known.watch.expired(); });
    watches_.push_back({watch.get(), watch});
  }

  /// Waits until done() is true, for at most the time limit since the last sign of life.
  /// `describe()` says what for.
  template <class Done, class Describe>
  void wait(const Done& done, const Describe& describe) {
    Clock::time_point since = Clock::now();
    std::uint64_t life = 0;
    for (unsigned turn = 0;; ++turn) {
      const bool over = done();
      const std::uint64_t now_alive = look(true);
      if (over) return;
      const Clock::time_point now = Clock::now();
      if (std::exchange(life, now_alive) != now_alive) since = now;
      if (now - since >= limit_) expire(describe());
      pause(turn);
    }
  }

  /// Asks all who look on; see HostWatch::look.
  std::uint64_t look(bool waiting) {
    std::uint64_t life = 0;
    for_each([&](HostWatch& watch) { life += watch.look(waiting); });
    return life;
  }

 private:
  struct Watched {
    const HostWatch* key;
    std::weak_ptr<HostWatch> watch;
  };

  template <class F>
  void for_each(const F& f) {
    for (std::size_t i = 0;; ++i) {
      std::shared_ptr<HostWatch> watch;
      {
        const std::lock_guard lock(mutex_);
        if (i >= watches_.size()) return;
        watch = watches_[i].watch.lock();
      }
      if (watch != nullptr) f(*watch);
    }
  }

  [[noreturn]] void expire(const std::string& what) {
    for_each([&](HostWatch& watch) { watch.expire(what); });
    look(true);
    throw TimeoutError(what + " did not end within " + std::to_string(limit_.count()) +
                       " ms; look for a kernel that hangs, or give the device more time "
                       "(time_limit)");
  }

  static void pause(unsigned turn) {
    if (turn < 100) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(turn - 80, 200U)));
  }

  const int ordinal_;
  const std::chrono::milliseconds limit_;
  std::mutex mutex_;
  std::vector<Watched> watches_;
};

}  // namespace zero::detail
