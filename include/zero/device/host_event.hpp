// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A point in a host stream. Includes base/ and device/detail/.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <zero/device/detail/shuffler.hpp>
#include <zero/device/detail/stream_state.hpp>

namespace zero {

/// A point in a HostStream that other streams and the host can wait for, as a cudaEvent_t is.
///
/// It may be recorded any number of times, on any stream of any device: it then stands for the
/// latest record. Never recorded, it is complete. It may be destroyed while work waits for it.
/// All calls may come from any thread.
class HostEvent {
 public:
  HostEvent() = default;
  HostEvent(const HostEvent&) = delete;
  HostEvent& operator=(const HostEvent&) = delete;

  /// Whether the work before the latest record has ended. Does not wait.
  bool complete() const { return pending().stream == nullptr; }

  /// Waits on the host until complete(); the device of a shuffled stream runs its tasks meanwhile,
  /// so that only the thread of that device may call it.
  ///
  /// Errors:  TimeoutError if the stream shows no sign of life within its time limit; DeviceError
  ///          if its device was destroyed before the work ran. What a task threw is thrown by
  ///          HostStream::synchronize, not here.
  void synchronize() const {
    const Record record = pending();
    if (record.stream == nullptr) return;
    record.stream->reached(record.target);
    detail::wait_on_host(*record.stream, record.target, record.stream->driver);
  }

 private:
  friend class HostStream;

  struct Record {
    std::shared_ptr<detail::StreamState> stream;
    std::uint64_t target = 0;
  };

  void set(const std::shared_ptr<detail::StreamState>& stream, std::uint64_t target) {
    const std::lock_guard guard(lock_);
    if (record_.stream != stream) record_.stream = stream;
    record_.target = target;
  }

  /// The latest record, or none when it is complete.
  Record pending() const {
    const std::lock_guard guard(lock_);
    const bool complete =
        record_.stream == nullptr || record_.stream->done.value() >= record_.target;
    return complete ? Record() : record_;
  }

  mutable detail::SpinLock lock_;
  Record record_;
};

}  // namespace zero
