// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What the emulator knows: devices, streams, events, and the one lock around it. Private to it.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator.hpp"
#include "hidden.hpp"

namespace emulator {

/// Thrown inside of an entry point, which then returns it.
struct CudaFailure {
  cudaError_t error;
};
/// Thrown by work that runs on a stream: reported, and a sticky error of its device.
struct WorkFailure {
  cudaError_t error;
  std::string text;
};

/// The one lock, which no happens-before edge comes of. Pre: a Hidden scope.
using Lock = std::unique_lock<std::mutex>;

using Body = std::function<void()>;

/// Something to do on a stream, once for each time that it is enqueued or launched with a graph.
struct Work {
  std::string name;
  std::size_t bytes = 0;
  Body body = {};
  /// If there is one, called by the host at each enqueueing and launch; what it returns is run.
  std::function<Body(Lock&)> issue = {};
};

/// Work in a stream's queue.
struct Operation {
  std::string name;
  std::size_t bytes = 0;
  Body body;
  std::vector<std::shared_ptr<Operation>> after;  ///< Of other streams; done before this begins.
  bool finished = false;
  std::condition_variable done;
  double finished_ms = 0;
  char enqueued = 0;   ///< Edge from the host's call to the work.
  char completed = 0;  ///< Edge from the work to what waited for it.
};
using OperationPointer = std::shared_ptr<Operation>;

struct Capture;
struct Node;

struct Stream {
  unsigned number;
  int device;
  unsigned flags;
  int priority;
  std::deque<OperationPointer> queue = {};
  OperationPointer last = nullptr;  ///< Enqueued last, finished or not.
  bool closed = false;              ///< Its thread ends when the queue is empty.
  std::condition_variable wake = {};
  std::shared_ptr<Capture> capture = nullptr;  ///< What it is being captured into.
  std::vector<Node*> frontier = {};            ///< What its next captured work comes after.
  bool blocking() const { return (flags & cudaStreamNonBlocking) == 0; }
};
using StreamPointer = std::shared_ptr<Stream>;

struct Event {
  int device;
  unsigned flags;
  OperationPointer record = nullptr;           ///< The latest record, unless it was captured:
  std::shared_ptr<Capture> capture = nullptr;  ///< into this,
  std::vector<Node*> frontier = {};            ///< after these.
};

struct Device {
  StreamPointer legacy = nullptr;
  cudaError_t sticky = cudaSuccess;
  char ended = 0;           ///< Edge from streams whose threads have ended;
  char ended_blocking = 0;  ///< from the blocking ones of them.
  std::size_t in_use = 0;
  std::size_t peak = 0;
  unsigned resident_collectives = 0;
  std::uint64_t work_begun = 0;
  std::uint64_t work_to_fail = 0;  ///< The value of work_begun that fails, 0 for none.
  cudaError_t work_error = cudaSuccess;
};

inline constexpr int most_devices = 64;
/// ZERO_EMULATOR_DEVICES of the environment, or 8.
int devices_at_the_start();

/// Objects behind the handles that a program holds. A handle is a number that never comes again, so
/// that one used after its end is recognised.
template <class Handle, class Object>
class Handles {
 public:
  Handle add(std::shared_ptr<Object> object) {
    const std::uintptr_t number = (next_ += 16);
    const Handle handle = reinterpret_cast<Handle>(number);
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  /// The object, or null.
  std::shared_ptr<Object> find(Handle handle) const {
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  /// Removes and returns the object, or null.
  std::shared_ptr<Object> take(Handle handle) {
    auto object = find(handle);
    objects_.erase(handle);
    return object;
  }
  std::size_t size() const { return objects_.size(); }
  auto begin() const { return objects_.begin(); }
  auto end() const { return objects_.end(); }

 private:
  std::map<Handle, std::shared_ptr<Object>> objects_;
  std::uintptr_t next_ = 0x10000;
};

struct State {
  std::mutex mutex;
  int device_count = devices_at_the_start();
  std::size_t memory_limit = std::size_t{16} << 30;
  Device devices[most_devices];
  Handles<cudaStream_t, Stream> streams;
  Handles<cudaEvent_t, Event> events;
  std::vector<StreamPointer> all_streams;  ///< Also those that have no handle, or no longer one.
  unsigned streams_made = 0;
  unsigned delay_us = 0;
  unsigned delay_seed = 0;
  unsigned most_resident = 0;
  bool tracing = false;
  std::vector<Record> records;
  std::vector<std::string> reports;
  std::vector<std::function<void()>> when_device_fails;  ///< Called under the lock.
};

/// The one State; never destroyed, as threads may outlive main().
State& state();

inline Lock lock() { return Lock(state().mutex); }

/// The calling thread's current device; on a stream's thread, the stream's.
int& current_device();

/// Keeps and prints a mistake of the program. Pre: the lock is held.
void report(Lock&, const std::string& text);
void add_record(Lock&, bool work, const std::string& what, int device, unsigned stream,
                std::size_t bytes);
/// Makes `error` sticky on `device` and wakes what waits there.
void fail_device(Lock&, int device, cudaError_t error);
/// Milliseconds since the program began.
double now_ms();

}  // namespace emulator
