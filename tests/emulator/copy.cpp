// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Copies, fills and functions of the host, as work of streams.
#include <cstring>

#include "call.hpp"
#include "capture.hpp"
#include "memory.hpp"
#include "stream.hpp"

namespace emulator {
namespace {

bool is_device_memory(Lock& held, const void* pointer) {
  const Allocation* const a = find_allocation(held, pointer);
  return a && a->kind == MemoryKind::device;
}

/// Throws if the call's own arguments are wrong already.
void check_copy(Lock& held, const void* to, const void* from, std::size_t bytes,
                cudaMemcpyKind kind) {
  for (const void* range : {to, from}) {
    const std::string wrong = wrong_access(held, range, bytes);
    if (wrong.empty()) continue;
    report(held, "a copy was asked for, but " + wrong);
    throw CudaFailure{cudaErrorInvalidValue};
  }
  if (kind == cudaMemcpyDefault || bytes == 0) return;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  // Pinned memory of the host is accessible to the device as well.
  const auto fits = [&](const void* pointer, bool device) {
    return device ? find_allocation(held, pointer) != nullptr : !is_device_memory(held, pointer);
  };
  if (fits(to, to_device) && fits(from, from_device)) return;
  report(held, "a copy was asked for in a direction that its pointers do not have");
  throw CudaFailure{cudaErrorInvalidValue};
}

Work copy_work(void* to, const void* from, std::size_t bytes) {
  return {.name = "memcpy", .bytes = bytes, .body = [=] {
            check_access(to, bytes, false);
            check_access(from, bytes, false);
            std::memmove(host_view(to), host_view(from), bytes);
          }};
}

void check_fill(Lock& held, const void* to, std::size_t bytes) {
  const std::string wrong = wrong_device_access(held, to, bytes);
  if (wrong.empty()) return;
  report(held, "a fill was asked for, but " + wrong);
  throw CudaFailure{cudaErrorInvalidValue};
}

Work fill_work(void* to, int value, std::size_t bytes) {
  return {.name = "memset", .bytes = bytes, .body = [=] {
            check_access(to, bytes, true);
            std::memset(host_view(to), value, bytes);
          }};
}

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  return call("cudaMemcpyAsync", Kind::uses, [&] {
    Lock held = lock();
    const StreamPointer stream = find_stream(held, handle);
    check_copy(held, to, from, bytes, kind);
    if (bytes != 0) submit(held, stream, copy_work(to, from, bytes));
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes,
                                cudaStream_t handle) {
  return call("cudaMemcpyPeerAsync", Kind::uses, [&] {
    Lock held = lock();
    const StreamPointer stream = find_stream(held, handle);
    check_copy(held, to, from, bytes, cudaMemcpyDeviceToDevice);
    if (bytes != 0) submit(held, stream, copy_work(to, from, bytes));
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return call("cudaMemcpy", Kind::uses, [&] {
    Lock held = lock();
    refuse_unsafe_call(held);
    const StreamPointer stream = find_stream(held, nullptr);
    check_copy(held, to, from, bytes, kind);
    if (bytes == 0) return cudaSuccess;
    const bool within_device = is_device_memory(held, to) && is_device_memory(held, from);
    submit(held, stream, copy_work(to, from, bytes));
    // Between two places of device memory it does not block the host.
    if (!within_device) wait(held, stream->last);
    return state().devices[stream->device].sticky;
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t handle) {
  return call("cudaMemsetAsync", Kind::uses, [&] {
    Lock held = lock();
    const StreamPointer stream = find_stream(held, handle);
    check_fill(held, to, bytes);
    if (bytes != 0) submit(held, stream, fill_work(to, value, bytes));
    return cudaSuccess;
  });
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return call("cudaMemset", Kind::uses, [&] {
    Lock held = lock();
    refuse_unsafe_call(held);
    const StreamPointer stream = find_stream(held, nullptr);
    check_fill(held, to, bytes);
    if (bytes == 0) return cudaSuccess;
    const bool pinned = !is_device_memory(held, to);
    submit(held, stream, fill_work(to, value, bytes));
    // Device memory is filled asynchronously.
    if (pinned) wait(held, stream->last);
    return cudaSuccess;
  });
}
cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return call("cudaLaunchHostFunc", Kind::uses, [&] {
    if (!function) return cudaErrorInvalidValue;
    Lock held = lock();
    submit(held, find_stream(held, handle), {.name = "host function", .body = [=] {
                                               in_host_function() = true;
                                               function(data);
                                               in_host_function() = false;
                                             }});
    return cudaSuccess;
  });
}
}
