// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The thread of a stream: runs what is in the queue, in order.
#include <pthread.h>

#include <chrono>
#include <exception>
#include <thread>

#include "memory.hpp"
#include "ptx.hpp"
#include "stream.hpp"

namespace emulator {
namespace {

void sleep_a_little(Lock& held, const Stream& stream, std::uint64_t begun) {
  const unsigned most = state().delay_us;
  if (most == 0) return;
  std::uint64_t mixed = (state().delay_seed * 0x9e3779b97f4a7c15u) ^ (stream.number * 0xbf58476du);
  mixed = (mixed ^ begun) * 0x94d049bb133111ebu;
  held.unlock();
  std::this_thread::sleep_for(std::chrono::microseconds((mixed >> 32) % (most + 1)));
  held.lock();
}

/// Runs the body with its accesses seen; what it throws is reported and sticks to the device.
void run_body(Lock& held, const Stream& stream, const Operation& operation) {
  if (!operation.body) return;
  Device& device = state().devices[stream.device];
  if (++device.work_begun == device.work_to_fail) {
    fail_device(held, stream.device, device.work_error);
  }
  if (device.sticky != cudaSuccess) return;
  add_record(held, true, operation.name, stream.device, stream.number, operation.bytes);
  held.unlock();
  std::string text;
  cudaError_t error = cudaSuccess;
  try {
    Visible visible;
    operation.body();
  } catch (const WorkFailure& failure) {
    error = failure.error;
    text = failure.text;
  } catch (const KernelFault& failure) {
    error = failure.error();
    text = failure.what();
  } catch (const std::exception& failure) {
    error = cudaErrorIllegalAddress;
    text = failure.what();
  }
  held.lock();
  if (error == cudaSuccess) return;
  report(held, operation.name + " on device " + std::to_string(stream.device) + ": " + text);
  fail_device(held, stream.device, error);
}

}  // namespace

void run_stream(StreamPointer stream) {
  Hidden hidden;
  current_device() = stream->device;
  set_working_device(stream->device);
  // What a sanitizer calls the thread.
  const std::string name =
      "gpu" + std::to_string(stream->device) + " stream" + std::to_string(stream->number);
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  Lock held = lock();
  Device& device = state().devices[stream->device];
  for (std::uint64_t begun = 0;; ++begun) {
    while (stream->queue.empty() && !stream->closed) stream->wake.wait(held);
    if (stream->queue.empty()) break;
    const OperationPointer operation = stream->queue.front();
    for (const auto& before : operation->after) {
      while (!before->finished) before->done.wait(held);
    }
    sleep_a_little(held, *stream, begun);
    acquire(operation->enqueued);
    for (const auto& before : operation->after) acquire(before->completed);
    if (stream == device.legacy) acquire(device.ended_blocking);
    run_body(held, *stream, *operation);
    operation->body = nullptr;
    operation->after.clear();
    operation->finished_ms = now_ms();
    release(operation->completed);
    operation->finished = true;
    operation->done.notify_all();
    stream->queue.pop_front();
  }
  release(device.ended);
  if (stream->blocking()) release(device.ended_blocking);
  std::erase(state().all_streams, stream);
}

}  // namespace emulator
