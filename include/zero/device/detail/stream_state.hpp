// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What others need to know of a stream, also after its end. Includes base/ and the counter.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/device/detail/counter.hpp>
#include <zero/device/detail/task.hpp>

namespace zero::detail {

class Shuffler;

/// Shared by a stream and by the events that were recorded on it, so that neither has to outlive
/// the other. An event is a stream and a number of its tasks; recording one adds no work.
struct StreamState {
  StreamState(std::string stream_name, std::chrono::nanoseconds limit, Shuffler* shuffler)
      : name(std::move(stream_name)), time_limit(limit), driver(shuffler) {}

  const std::string name;
  const std::chrono::nanoseconds time_limit;
  Shuffler* const driver;    // who runs the stream, where no thread of its own does; dies with it
  alignas(64) Counter done;  // tasks that have ended, from the beginning of the stream
  std::atomic<std::uint64_t> moves{0};  // signs of life beside `done`
  std::atomic<bool> abandoned{false};   // the device ends: what is queued never runs
  std::atomic<const char*> operation{""};

  std::uint64_t signs_of_life() const {
    return done.value() + moves.load(std::memory_order_relaxed);
  }

  /// Whether the first `target` tasks have ended; throws if they never will.
  bool reached(std::uint64_t target) const {
    if (done.value() >= target) return true;
    if (abandoned.load(std::memory_order_acquire)) {
      throw DeviceError("wait for stream '" + name +
                        "': its device was destroyed before that work had ended; "
                        "synchronize a stream before its device is destroyed");
    }
    return false;
  }

  void sleep(std::uint64_t target, std::chrono::nanoseconds limit) {
    done.sleep(target, limit, [this] { return abandoned.load(std::memory_order_seq_cst); });
  }

  // Who waits for an operation has more time than the operation itself, whose error names the
  // cause, by more than a busy machine delays a thread.
  std::chrono::nanoseconds stream_waits() const { return time_limit + grace(); }
  std::chrono::nanoseconds host_waits() const { return time_limit + 2 * grace(); }

  /// How long to sleep at once: short beside the limit, and for whoever waits for this thread.
  std::chrono::nanoseconds nap() const {
    return std::min<std::chrono::nanoseconds>(time_limit / 8, std::chrono::milliseconds(5));
  }

  std::string late(const std::string& what) const {
    using std::chrono::milliseconds;
    return what + " within the time limit of " +
           std::to_string(std::chrono::duration_cast<milliseconds>(time_limit).count()) +
           " ms; look for a rank or an operation that hangs, or raise "
           "HostDeviceOptions::time_limit";
  }

  [[noreturn]] void throw_late() const {
    throw TimeoutError(late("stream '" + name + "' has not moved, its last operation was '" +
                            operation.load(std::memory_order_relaxed) + "': no sign of life"));
  }

  bool failed() const { return failed_.load(std::memory_order_acquire); }

  /// Keeps an error; later work is dropped, so that it is the first. The caller holds no other
  /// reference to it.
  void fail(std::exception_ptr error) {
    const std::lock_guard guard(lock_);
    error_ = std::move(error);
    failed_.store(true, std::memory_order_release);
  }

  /// Throws the first error, if there is one, and then forgets it or keeps it.
  void rethrow(bool forget) {
    if (!failed()) return;
    std::exception_ptr error;
    {
      const std::lock_guard guard(lock_);
      error = error_;
      if (forget) {
        error_ = nullptr;
        failed_.store(false, std::memory_order_release);
      }
    }
    if (error != nullptr) std::rethrow_exception(std::move(error));
  }

 private:
  std::chrono::nanoseconds grace() const {
    return std::max<std::chrono::nanoseconds>(time_limit / 4, std::chrono::milliseconds(500));
  }

  SpinLock lock_;
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
};

/// The host waits until the first `target` tasks of a stream with a thread of its own have ended.
inline void wait_on_host(StreamState& state, std::uint64_t target) {
  Patience patience;
  std::uint64_t life = state.signs_of_life();
  while (!state.reached(target)) {
    if (patience.spin()) continue;
    if (const std::uint64_t now = state.signs_of_life(); now != life) {
      life = now;
      patience.renew();
    }
    if (patience.over(state.host_waits())) state.throw_late();
    state.sleep(target, state.nap());
  }
}

}  // namespace zero::detail
