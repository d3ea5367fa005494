// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Runs the queues of a device in a random legal order. Includes base/ and device/detail/.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/device/detail/stream_state.hpp>
#include <zero/device/detail/task_queue.hpp>

namespace zero::detail {

/// Each queue has a random rank, drawn anew after a random number of tasks; the first queue whose
/// oldest task is ready runs it. Long runs of one queue, while others lag, find more errors than
/// an even mix. The order depends on the seed and on which tasks were ready, on nothing else.
class Shuffler {
 public:
  explicit Shuffler(std::uint64_t seed) : random_(seed) {}

  void add(TaskQueue& queue) {
    order_.push_back(&queue);
    draw();
  }

  /// Runs tasks on this thread until the first `target` of one stream, which may be another
  /// device's, have ended. Tasks that are not ready let others proceed.
  void run_until(StreamState& state, std::uint64_t target) {
    if (state.reached(target)) return;
    const Running running(*this);
    if (!running) {
      throw ContractError("wait for stream '" + state.name +
                          "': called by a task of a shuffled device, or by a second thread, while "
                          "the device runs its tasks; wait outside of tasks and on one thread");
    }
    Patience patience;
    std::uint64_t life = state.signs_of_life();
    while (!state.reached(target)) {
      if (step()) {
        patience = Patience();
        continue;
      }
      if (patience.spin()) continue;
      if (const std::uint64_t now = state.signs_of_life(); now != life) {
        life = now;
        patience.renew();
      }
      // A task that is late fails by itself; this is for streams that others run.
      if (patience.over(state.host_waits()) && empty()) state.throw_late();
      pause(state, target);
    }
  }

  /// Runs one task if one is ready and the device is not running tasks already.
  bool run_one() {
    const Running running(*this);
    return running && step();
  }

 private:
  /// Holds the right to run tasks, or has not got it.
  class Running {
   public:
    explicit Running(Shuffler& shuffler)
        : shuffler_(shuffler), owned_(!shuffler.running_.exchange(true)) {}
    ~Running() {
      if (owned_) shuffler_.running_.store(false);
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    explicit operator bool() const { return owned_; }

   private:
    Shuffler& shuffler_;
    const bool owned_;
  };

  bool step() {
    for (TaskQueue* queue : order_) {
      if (!queue->step()) continue;
      if (random() % 4 == 0) draw();
      return true;
    }
    return false;
  }

  bool empty() const {
    for (const TaskQueue* queue : order_) {
      if (!queue->empty()) return false;
    }
    return true;
  }

  void pause(StreamState& state, std::uint64_t target) {
    for (TaskQueue* queue : order_) {
      // Short, since the task of another queue may become ready first.
      if (!queue->empty()) return queue->pause(default_pause);
    }
    state.sleep(target, state.nap());
  }

  void draw() {
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
  }

  /// Source: Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014.
  std::uint64_t random() {
    std::uint64_t z = random_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

  List<TaskQueue*> order_;  // first is tried first
  std::uint64_t random_;
  std::atomic<bool> running_{false};
};

/// The host waits until the first `target` tasks of a stream have ended; with a `driver`, by
/// running the tasks of its device.
inline void wait_on_host(StreamState& state, std::uint64_t target, Shuffler* driver) {
  if (driver != nullptr) {
    driver->run_until(state, target);
  } else {
    wait_on_host(state, target);
  }
}

}  // namespace zero::detail
