// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A ring of tasks and how one task is run, whoever runs it. Includes base/ and device/detail/.
#pragma once

#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/device/detail/counter.hpp>
#include <zero/device/detail/stream_state.hpp>
#include <zero/device/detail/task.hpp>

namespace zero::detail {

/// Order: tasks end in the order of their push. Several threads may push; one at a time runs.
class TaskQueue {
 public:
  /// `capacity` is rounded up to a power of two; 0 for a queue that only runs callers' tasks.
  TaskQueue(std::shared_ptr<StreamState> state, std::size_t capacity)
      : state_(std::move(state)),
        capacity_(capacity == 0 ? 0 : std::bit_ceil(capacity)),
        ring_(capacity == 0 ? nullptr : new TaskSlot[capacity_]) {}
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;
  ~TaskQueue() {
    stop();
    for (std::uint64_t at = state_->done.value(); at != issued(); ++at) slot(at).destroy();
  }

  const std::shared_ptr<StreamState>& state() const { return state_; }
  std::uint64_t issued() const { return issued_.value(); }
  bool empty() const { return state_->done.value() == issued(); }

  /// Appends a task. When the ring is full, `make_room(n)` is called to wait until n have ended.
  template <class F, class MakeRoom>
  void push(const char* label, F&& f, MakeRoom make_room) {
    for (;;) {
      if (full()) make_room(issued() - capacity_ + 1);
      const std::lock_guard guard(push_lock_);
      if (full()) continue;
      const std::uint64_t at = issued();
      slot(at).emplace(label, std::forward<F>(f));
      issued_.advance(at + 1);
      return;
    }
  }

  /// Polls the oldest task once. Returns whether a task has ended.
  bool step() {
    const std::uint64_t at = state_->done.value();
    if (at == issued()) return false;
    runner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    const bool ended = attempt(slot(at).task(), patience_);
    runner_.store({}, std::memory_order_relaxed);
    if (!ended) return false;
    slot(at).destroy();
    patience_ = Patience();
    state_->done.advance(at + 1);
    return true;
  }

  /// Runs a task that is not in the ring, at once; `between(tired)` is called after each poll that
  /// was too early.
  template <class Between>
  void run(const TaskRef& task, Between between) {
    runner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    for (Patience patience; !attempt(task, patience);) between(patience.tired());
    runner_.store({}, std::memory_order_relaxed);
  }

  /// Sleeps a moment, as the oldest task thinks best. Pre: there is one, and it was not ready.
  void pause(std::chrono::nanoseconds limit) { slot(state_->done.value()).task().pause(limit); }

  /// Runs tasks until stop().
  void work() {
    while (!stopped()) {
      if (step()) continue;
      if (!empty()) {
        if (patience_.tired()) pause(state_->nap());
        continue;
      }
      for (Patience idle; empty() && !stopped();) {
        if (idle.spin()) continue;
        issued_.sleep(state_->done.value() + 1, std::chrono::hours(1),
                      [this] { return stopped(); });
      }
    }
  }

  /// Ends work() after the task that runs, and all waiting for what is queued.
  void stop() {
    state_->abandoned.store(true, std::memory_order_seq_cst);
    issued_.wake();
    state_->done.wake();
  }

  /// A task must not use its own stream: what it would wait for is itself.
  void refuse_own_task(const char* call) const {
    if (runner_.load(std::memory_order_relaxed) != std::this_thread::get_id()) return;
    throw ContractError(std::string(call) + ": called on stream '" + state_->name +
                        "' by a task of the same stream ('" +
                        state_->operation.load(std::memory_order_relaxed) +
                        "'); a task may use other streams only");
  }

 private:
  bool full() const {
    const std::uint64_t done = state_->done.value();  // first, so that it is never the larger one
    return issued() - done >= capacity_;
  }
  bool stopped() const { return state_->abandoned.load(std::memory_order_seq_cst); }
  TaskSlot& slot(std::uint64_t at) { return ring_[at & (capacity_ - 1)]; }

  /// Polls a task once. Returns whether it has ended: it is done, it failed, or it is dropped
  /// because an earlier one failed.
  bool attempt(const TaskRef& task, Patience& patience) {
    if (state_->failed()) return true;
    std::exception_ptr error;
    state_->operation.store(task.label, std::memory_order_relaxed);
    try {
      const Poll poll = task.poll();
      if (poll == Poll::ready) return true;
      check_time(task, poll, patience);
      return false;
    } catch (...) { error = std::current_exception(); }
    // After the handler, so that the waiting host has the only reference to the exception.
    state_->fail(std::move(error));
    return true;
  }

  void check_time(const TaskRef& task, Poll poll, Patience& patience) {
    if (poll == Poll::moving) {
      state_->moves.fetch_add(1, std::memory_order_relaxed);
      patience.renew();
    }
    if (patience.spin()) return;
    const auto limit = task.type->is_wait ? state_->stream_waits() : state_->time_limit;
    if (!patience.over(limit)) return;
    throw TimeoutError(
        state_->late("stream '" + state_->name + "': " + task.describe() + " was not done"));
  }

  const std::shared_ptr<StreamState> state_;
  const std::uint64_t capacity_;
  const std::unique_ptr<TaskSlot[]> ring_;
  Patience patience_;  // with the oldest task
  std::atomic<std::thread::id> runner_{};
  alignas(64) Counter issued_;
  SpinLock push_lock_;
};

}  // namespace zero::detail
