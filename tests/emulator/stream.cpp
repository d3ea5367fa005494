// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Streams: how they are made and found, and how work gets into them.
#include "stream.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "call.hpp"
#include "capture.hpp"

namespace emulator {
namespace {

/// The default stream of each thread and device, which ends with the thread.
struct OwnStreams {
  StreamPointer of[most_devices];
  OwnStreams() = default;
  OwnStreams(const OwnStreams&) = delete;
  OwnStreams& operator=(const OwnStreams&) = delete;
  ~OwnStreams() {
    Hidden hidden;
    Lock held = lock();
    for (auto& stream : of) {
      if (stream) close_stream(held, *stream);
      stream.reset();
    }
  }
};

StreamPointer own_stream(Lock& held, int device) {
  thread_local OwnStreams own;
  if (!own.of[device]) own.of[device] = make_stream(held, device, cudaStreamDefault);
  return own.of[device];
}

StreamPointer legacy_stream(Lock& held, int device) {
  StreamPointer& stream = state().devices[device].legacy;
  if (!stream) stream = make_stream(held, device, cudaStreamDefault);
  return stream;
}

/// What the legacy default stream waits for, and what waits for it.
void add_legacy_order(Stream& stream, std::vector<OperationPointer>& after) {
  const StreamPointer& legacy = state().devices[stream.device].legacy;
  if (!legacy || !stream.blocking()) return;
  if (&stream != legacy.get()) {
    if (legacy->last) after.push_back(legacy->last);
    return;
  }
  for (const auto& other : state().all_streams) {
    if (other != legacy && other->device == stream.device && other->blocking() && other->last) {
      after.push_back(other->last);
    }
  }
}

}  // namespace

StreamPointer make_stream(Lock&, int device, unsigned flags, int priority) {
  const StreamPointer stream(new Stream{++state().streams_made, device, flags, priority});
  state().all_streams.push_back(stream);
  std::thread(run_stream, stream).detach();
  return stream;
}

void close_stream(Lock&, Stream& stream) {
  stream.closed = true;
  stream.wake.notify_all();
}

StreamPointer find_stream(Lock& held, cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) {
    StreamPointer stream = legacy_stream(held, current_device());
    refuse_legacy_while_capturing(held, stream->device);
    return stream;
  }
  if (handle == cudaStreamPerThread) return own_stream(held, current_device());
  StreamPointer stream = state().streams.find(handle);
  if (stream) return stream;
  report(held, "a stream was used that was destroyed or never made");
  throw CudaFailure{cudaErrorInvalidResourceHandle};
}

StreamPointer find_stream_of_current_device(Lock& held, cudaStream_t handle) {
  StreamPointer stream = find_stream(held, handle);
  if (stream->device != current_device()) throw CudaFailure{cudaErrorInvalidResourceHandle};
  return stream;
}

OperationPointer push(Lock& held, Stream& stream, const Work& work,
                      std::vector<OperationPointer> after) {
  auto operation = std::make_shared<Operation>();
  operation->name = work.name;
  operation->bytes = work.bytes;
  operation->body = work.issue ? work.issue(held) : work.body;
  operation->after = std::move(after);
  add_legacy_order(stream, operation->after);
  release(operation->enqueued);
  stream.queue.push_back(operation);
  stream.last = operation;
  stream.wake.notify_all();
  return operation;
}

void submit(Lock& held, const StreamPointer& stream, Work work) {
  if (stream->capture) {
    capture_work(held, *stream, std::move(work));
  } else {
    push(held, *stream, work);
  }
}

void wait(Lock& held, const OperationPointer& operation) {
  if (!operation) return;
  while (!operation->finished) operation->done.wait(held);
  acquire(operation->completed);
}

void wait_for_device(Lock& held, int device) {
  std::vector<OperationPointer> pending;
  for (const auto& stream : state().all_streams) {
    if (stream->device == device) pending.push_back(stream->last);
  }
  for (const auto& operation : pending) wait(held, operation);
  acquire(state().devices[device].ended);
}

cudaError_t query(Lock& held, const OperationPointer& operation, int device) {
  const cudaError_t sticky = state().devices[device].sticky;
  if (!operation || operation->finished) {
    wait(held, operation);
    return sticky;
  }
  return sticky != cudaSuccess ? sticky : cudaErrorNotReady;
}

OperationPointer last_operation(Lock& held, Stream& stream) {
  // Whoever waits for the legacy stream waits for what it would wait for.
  if (state().devices[stream.device].legacy.get() == &stream) push(held, stream, {.name = ""});
  return stream.last;
}

cudaError_t enqueue(cudaStream_t handle, const std::string& name, std::function<void()> work) {
  return call("enqueue", Kind::uses, [&] {
    Lock held = lock();
    submit(held, find_stream(held, handle), {.name = name, .body = std::move(work)});
    return cudaSuccess;
  });
}

}  // namespace emulator

using namespace emulator;

extern "C" {
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return call("cudaStreamCreateWithPriority", Kind::uses, [&] {
    if (!stream || (flags & ~unsigned{cudaStreamNonBlocking})) return cudaErrorInvalidValue;
    Lock held = lock();
    *stream = state().streams.add(
        make_stream(held, current_device(), flags, std::clamp(priority, -5, 0)));
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call("cudaStreamCreateWithFlags", Kind::uses, [&] {
    if (!stream || (flags & ~unsigned{cudaStreamNonBlocking})) return cudaErrorInvalidValue;
    Lock held = lock();
    *stream = state().streams.add(make_stream(held, current_device(), flags));
    return cudaSuccess;
  });
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return call("cudaStreamCreate", Kind::uses, [&] {
    if (!stream) return cudaErrorInvalidValue;
    Lock held = lock();
    *stream = state().streams.add(make_stream(held, current_device(), cudaStreamDefault));
    return cudaSuccess;
  });
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return call("cudaStreamDestroy", Kind::destroys, [&] {
    Lock held = lock();
    const StreamPointer stream = find_stream(held, handle);
    if (!state().streams.take(handle)) return cudaErrorInvalidResourceHandle;
    abandon_capture(held, *stream);
    close_stream(held, *stream);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call("cudaStreamSynchronize", Kind::asks, [&] {
    Lock held = lock();
    const StreamPointer stream = find_stream(held, handle);
    refuse_while_capturing(held, *stream);
    wait(held, last_operation(held, *stream));
    return state().devices[stream->device].sticky;
  });
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return call("cudaStreamQuery", Kind::asks, [&] {
    Lock held = lock();
    const StreamPointer stream = find_stream(held, handle);
    refuse_while_capturing(held, *stream);
    const OperationPointer last = last_operation(held, *stream);
    return query(held, last, stream->device);
  });
}
cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return call("cudaStreamGetFlags", Kind::asks, [&] {
    Lock held = lock();
    *flags = find_stream(held, handle)->flags;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return call("cudaStreamGetPriority", Kind::asks, [&] {
    Lock held = lock();
    *priority = find_stream(held, handle)->priority;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return call("cudaStreamGetDevice", Kind::asks, [&] {
    Lock held = lock();
    *device = find_stream(held, handle)->device;
    return cudaSuccess;
  });
}
cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return call("cudaStreamGetId", Kind::asks, [&] {
    Lock held = lock();
    *id = find_stream(held, handle)->number;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", Kind::asks, [] {
    Lock held = lock();
    refuse_unsafe_call(held);
    for (const auto& stream : state().all_streams) {
      if (stream->device == current_device()) refuse_while_capturing(held, *stream);
    }
    wait_for_device(held, current_device());
    return state().devices[current_device()].sticky;
  });
}
}
