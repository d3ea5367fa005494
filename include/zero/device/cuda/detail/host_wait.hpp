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
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
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
    watches_.erase_if([](const Watched& known) { return known.watch.expired(); });
    watches_.push_back({watch.get(), watch});
  }

  /// Waits until done() is true, for at most the time limit since the last sign of life.
  /// `describe()` says what for. If somebody who looks on has failed, it waits all the same, since
  /// what follows an error is the end of the memory that the device's work uses.
  template <class Done, class Describe>
  void wait(const Done& done, const Describe& describe) {
    const auto ask = [&] {
      try {
        return this->look(true);
      } catch (const Error&) {
        this->settle(done);
        throw;
      }
    };
    if (poll(done, ask)) return;
    const std::string what = describe();
    for_each([&](HostWatch& watch) { watch.expire(what); });
    ask();
    throw TimeoutError(what + " did not end within " + std::to_string(limit_.count()) +
                       " ms; look for a kernel that hangs, or give the device more time "
                       "(time_limit)");
  }

  /// Waits without errors, for those who clean up after one: what is late is made to end.
  template <class Done>
  void settle(const Done& done) noexcept {
    const auto ask = [this]() -> std::uint64_t {
      try {
        return look(false);
      } catch (const Error&) { return 0; }
    };
    try {
      if (poll(done, ask)) return;
      for_each([](HostWatch& watch) { watch.expire("the end of a stream"); });
      poll(done, ask);
    } catch (...) {}  // the device has failed: nothing runs on it any more
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

  /// Asks done() and ask() by turns; false if the time is over.
  template <class Done, class Ask>
  bool poll(const Done& done, const Ask& ask) {
    Clock::time_point since = Clock::now();
    std::uint64_t life = 0;
    for (unsigned turn = 0;; ++turn) {
      const bool over = done();
      const std::uint64_t alive = ask();
      if (over) return true;
      const Clock::time_point now = Clock::now();
      if (std::exchange(life, alive) != alive) since = now;
      if (now - since >= limit_) return false;
      pause(turn);
    }
  }

  static void pause(unsigned turn) {
    if (turn < 100) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(std::min(turn - 80, 200U)));
  }

  const int ordinal_;
  const std::chrono::milliseconds limit_;
  std::mutex mutex_;
  List<Watched> watches_;
};

}  // namespace zero::detail
