// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Events: each holds the operation that it was recorded as, or its place in a capture.
#include "call.hpp"
#include "capture.hpp"
#include "stream.hpp"

namespace emulator {
namespace {

std::shared_ptr<Event> find_event(Lock& held, cudaEvent_t handle) {
  auto event = state().events.find(handle);
  if (event) return event;
  report(held, "an event was used that was destroyed or never made");
  throw CudaFailure{cudaErrorInvalidResourceHandle};
}

cudaError_t make_event(cudaEvent_t* event, unsigned flags) {
  if (!event) return cudaErrorInvalidValue;
  Lock held = lock();
  *event = state().events.add(std::make_shared<Event>(Event{current_device(), flags}));
  return cudaSuccess;
}

cudaError_t record(cudaEvent_t handle, cudaStream_t stream_handle) {
  Lock held = lock();
  const auto event = find_event(held, handle);
  const StreamPointer stream = find_stream(held, stream_handle);
  if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
  if (stream->capture) {
    record_in_capture(held, *event, *stream);
    return cudaSuccess;
  }
  event->capture = nullptr;
  event->frontier.clear();
  event->record = push(held, *stream, {.name = "record"});
  return cudaSuccess;
}

cudaError_t wait_for(cudaStream_t stream_handle, cudaEvent_t handle) {
  Lock held = lock();
  const auto event = find_event(held, handle);
  const StreamPointer stream = find_stream(held, stream_handle);
  if (event->capture || stream->capture) {
    wait_in_capture(held, stream, *event);
  } else if (event->record) {
    push(held, *stream, {.name = "wait"}, {event->record});
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return call("cudaEventCreate", Kind::uses, [&] { return make_event(event, cudaEventDefault); });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call("cudaEventCreateWithFlags", Kind::uses, [&] { return make_event(event, flags); });
}
cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return call("cudaEventDestroy", Kind::destroys, [&] {
    Lock held = lock();
    find_event(held, handle);
    state().events.take(handle);
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call("cudaEventRecord", Kind::uses, [&] { return record(event, stream); });
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return call("cudaEventRecordWithFlags", Kind::uses, [&] {
    return flags == cudaEventRecordDefault ? record(event, stream) : cudaErrorNotSupported;
  });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return call("cudaStreamWaitEvent", Kind::uses, [&] {
    return flags == cudaEventWaitDefault ? wait_for(stream, event) : cudaErrorNotSupported;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return call("cudaEventSynchronize", Kind::asks, [&] {
    Lock held = lock();
    const auto event = find_event(held, handle);
    refuse_captured_event(held, *event);
    wait(held, event->record);
    return state().devices[event->device].sticky;
  });
}
cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return call("cudaEventQuery", Kind::asks, [&] {
    Lock held = lock();
    const auto event = find_event(held, handle);
    refuse_captured_event(held, *event);
    return query(held, event->record, event->device);
  });
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t stop) {
  return call("cudaEventElapsedTime", Kind::uses, [&] {
    if (!ms) return cudaErrorInvalidValue;
    Lock held = lock();
    const auto from = find_event(held, start);
    const auto to = find_event(held, stop);
    for (const auto& event : {from, to}) {
      if (event->flags & cudaEventDisableTiming) return cudaErrorInvalidResourceHandle;
      if (!event->record) return cudaErrorInvalidResourceHandle;
      if (!event->record->finished) return cudaErrorNotReady;
    }
    *ms = static_cast<float>(to->record->finished_ms - from->record->finished_ms);
    return cudaSuccess;
  });
}
}
