// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Streams of work on the host, and the device that owns them. Includes base/ and device/.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/device/detail/shuffler.hpp>
#include <zero/device/detail/stream_state.hpp>
#include <zero/device/detail/synchronize_all.hpp>
#include <zero/device/detail/task_queue.hpp>
#include <zero/device/host_event.hpp>
#include <zero/device/memory.hpp>
#include <zero/device/stream.hpp>

namespace zero {

/// Who runs the work of a stream, and when.
enum class StreamMode : std::uint8_t {
  inline_run,    // the caller, at once: the fastest
  asynchronous,  // a thread of the stream, in order, as a device does
  shuffled       // the caller when it waits, in a random legal order: finds missing waits
};

/// What a caller may choose of the streams of the host.
struct HostDeviceOptions {
  StreamMode mode = StreamMode::inline_run;  // who runs the work, and when
  std::uint64_t seed = 0;  // of StreamMode::shuffled: the same seed gives the same order
  /// Of an operation that is polled. Streams that wait for it have a quarter more (at least 500 ms)
  /// and the host, also for a task that does not return, a half (at least 1 s), both counted
  /// from the last sign of life.
  std::chrono::milliseconds time_limit = std::chrono::seconds(30);
  std::size_t queue_capacity = 1024;  // tasks and waits of a stream; rounded up to a power of two
};

/// A queue of work that runs in order, as a cudaStream_t is. Made by HostDevice::make_stream.
///
/// Nothing is allocated after construction. An asynchronous stream takes calls from any thread;
/// those of an inline or shuffled device are used by one thread at a time, which also runs the
/// tasks. A task may use other streams, never its own, and a task of a shuffled device never waits.
class HostStream {
 public:
  /// A callable is at most this large, aligned to at most 16 bytes.
  static constexpr std::size_t max_task_bytes = detail::TaskSlot::capacity;

  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;
  ~HostStream() { join(); }

  /// Appends a callable. If it returns void it runs once; if it returns bool it is polled until it
  /// returns true, while other streams proceed.
  ///
  /// It may have two members: `void pause(std::chrono::nanoseconds limit)` sleeps until polling
  /// again may help, at most for the limit (without it, 50 us); `std::string describe() const`
  /// names it in a TimeoutError, better than `label` does.
  ///
  /// Order:   after all earlier work of the stream; only in an inline stream has it ended on
  /// return. Pre:     `label` outlives the work. It is destroyed once, before the work counts as
  /// done. Errors:  what it throws, and TimeoutError if it was polled longer than the time limit,
  /// is
  ///          thrown by synchronize() and check(); until then later work is dropped and counts as
  ///          done. A full ring makes the caller wait.
  template <class F>
  void enqueue(const char* label, F&& callable) {
    using Callable = std::decay_t<F>;
    static_assert(detail::TaskCallable<Callable>,
                  "HostStream::enqueue: the callable must take no arguments and return void (it "
                  "runs once) or bool (it is polled until it returns true)");
    static_assert(sizeof(Callable) <= max_task_bytes && alignof(Callable) <= 16,
                  "HostStream::enqueue: the callable is too large for a slot of the queue; capture "
                  "a pointer or a reference instead of the values");
    queue_.refuse_own_task("HostStream::enqueue");
    if (mode_ != StreamMode::inline_run) return push(label, std::forward<F>(callable));
    Callable copy(std::forward<F>(callable));
    run_here({&detail::task_type<Callable>, &copy, label});
  }

  /// Adds work to the end of the queue.
  template <class F>
  void enqueue(F&& callable) {
    enqueue("task", std::forward<F>(callable));
  }

  /// Makes the event stand for all work enqueued so far.
  void record(HostEvent& event) {
    queue_.refuse_own_task("HostStream::record");
    event.set(queue_.state(), queue_.issued());
  }

  /// Later work of this stream begins after the work that the latest record of the event stands
  /// for; an inline stream waits now. A later record of the event does not matter.
  void wait(const HostEvent& event) {
    queue_.refuse_own_task("HostStream::wait");
    HostEvent::Record record = event.pending();
    if (record.stream == nullptr || record.stream == queue_.state()) return;
    if (mode_ != StreamMode::inline_run) return push("wait", EventWait(std::move(record)));
    detail::wait_on_host(*record.stream, record.target, driver_);
  }

  /// Waits on the host until all work enqueued so far has ended.
  ///
  /// Errors:  the first exception of a task since the last synchronize(), which is then forgotten:
  ///          the stream can be used again. TimeoutError if the stream has hung in one task.
  void synchronize() {
    queue_.refuse_own_task("HostStream::synchronize");
    const std::shared_ptr<detail::StreamState> state = queue_.state();
    detail::wait_on_host(*state, queue_.issued(), driver_);
    state->rethrow(true);
  }

  /// Throws the first exception of a task so far, and keeps it. Does not wait.
  void check() const { queue_.state()->rethrow(false); }

  /// The same as a callable, which may outlive the stream.
  auto checker() const {
    return [state = queue_.state()] { state->rethrow(false); };
  }

  /// As errors say it.
  const std::string& name() const { return queue_.state()->name; }
  /// Who runs the work, and when.
  StreamMode mode() const { return mode_; }

 private:
  friend class HostDevice;

  class EventWait {
   public:
    using IsWait = void;

    explicit EventWait(HostEvent::Record record)
        : record_(std::move(record)), life_(record_.stream->signs_of_life()) {}

    detail::Poll operator()() {
      if (record_.stream->reached(record_.target)) return detail::Poll::ready;
      const std::uint64_t before = std::exchange(life_, record_.stream->signs_of_life());
      return before == life_ ? detail::Poll::busy : detail::Poll::moving;
    }
    void pause(std::chrono::nanoseconds limit) { record_.stream->sleep(record_.target, limit); }
    std::string describe() const { return "the wait for stream '" + record_.stream->name + "'"; }

   private:
    HostEvent::Record record_;
    std::uint64_t life_;
  };

  HostStream(std::string name, StreamMode mode, const HostDeviceOptions& options,
             detail::Shuffler* driver)
      : mode_(mode),
        driver_(driver),
        queue_(std::make_shared<detail::StreamState>(std::move(name), options.time_limit, driver),
               mode == StreamMode::inline_run ? 0 : options.queue_capacity) {
    if (mode == StreamMode::shuffled) driver->add(queue_);
    if (mode != StreamMode::asynchronous) return;
    try {
      worker_ = std::thread([this] { queue_.work(); });
    } catch (const std::system_error& error) {
      throw DeviceError("HostDevice::make_stream: no thread for stream '" + this->name() +
                        "': " + error.what() + "; use fewer ranks, or raise the limit of threads");
    }
  }

  template <class F>
  void push(const char* label, F&& callable) {
    queue_.push(label, std::forward<F>(callable), [this](std::uint64_t target) {
      detail::wait_on_host(*queue_.state(), target, driver_);
    });
  }

  void run_here(const detail::TaskRef& task) {
    queue_.run(task, [this, &task](bool tired) {
      // Other ranks may need the tasks of this device's other streams to get on.
      if (driver_ != nullptr && driver_->run_one()) return;
      if (tired) task.pause(queue_.state()->nap());
    });
  }

  void join() {
    queue_.stop();
    if (worker_.joinable()) worker_.join();
  }

  const StreamMode mode_;
  detail::Shuffler* const driver_;
  detail::TaskQueue queue_;
  std::thread worker_;
};

/// The streams of one rank in host memory.
///
/// Destruction never throws: the task that runs may end, work that is still queued is destroyed
/// without running, and who waits for it on another device gets a DeviceError.
class HostDevice {
 public:
  using Stream = HostStream;  // a queue of work
  using Event = HostEvent;    // a point in a queue
  using Memory = HostMemory;  // of the host

  /// A device without streams so far.
  explicit HostDevice(HostDeviceOptions options = {}) : options_(options), shuffler_(options.seed) {
    if (options.queue_capacity == 0 || options.time_limit.count() <= 0) {
      throw ContractError(
          "HostDevice: queue_capacity and time_limit must be positive, queue_capacity is " +
          std::to_string(options.queue_capacity) + ", time_limit " +
          std::to_string(options.time_limit.count()) + " ms");
    }
  }
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;
  ~HostDevice() {
    // All stop and end before any is destroyed, since a task may use, and wait for, other streams.
    for (auto& stream : streams_) stream->queue_.stop();
    for (auto& stream : streams_) stream->join();
  }

  /// Makes a stream that lives as long as the device. `name` is for errors.
  HostStream& make_stream(std::string name) { return make_stream(std::move(name), options_.mode); }

  /// Makes a stream that runs inline, whatever the device does: for work that the calling thread
  /// does itself. Its wait() then waits for the device's other streams.
  HostStream& make_inline_stream(std::string name) {
    return make_stream(std::move(name), StreamMode::inline_run);
  }

  /// Waits for all streams, then throws the first error of the first stream that has one. All
  /// errors are forgotten.
  void synchronize() { detail::synchronize_all(streams_); }

  /// What it was made with.
  const HostDeviceOptions& options() const { return options_; }

 private:
  HostStream& make_stream(std::string name, StreamMode mode) {
    detail::Shuffler* driver = options_.mode == StreamMode::shuffled ? &shuffler_ : nullptr;
    streams_.emplace_back(new HostStream(std::move(name), mode, options_, driver));
    return *streams_.back();
  }

  const HostDeviceOptions options_;
  detail::Shuffler shuffler_;
  List<std::unique_ptr<HostStream>> streams_;
};

static_assert(Device<HostDevice>);

}  // namespace zero
