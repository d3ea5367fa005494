// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Entry points that allocate and free, and what a test may ask of memory.
#include <cstring>

#include "call.hpp"
#include "capture.hpp"
#include "memory.hpp"
#include "stream.hpp"

namespace emulator {

void set_memory_limit(std::size_t bytes) {
  Hidden hidden;
  const Lock held = lock();
  state().memory_limit = bytes;
}
std::size_t memory_in_use(int device) {
  Hidden hidden;
  const Lock held = lock();
  return state().devices[device].in_use;
}
std::size_t memory_peak(int device) {
  Hidden hidden;
  const Lock held = lock();
  return state().devices[device].peak;
}
void reset_peaks() {
  Hidden hidden;
  const Lock held = lock();
  for (Device& device : state().devices) device.peak = device.in_use;
}

namespace {

cudaError_t allocate_now(void** pointer, std::size_t bytes, MemoryKind kind) {
  if (!pointer) return cudaErrorInvalidValue;
  Lock held = lock();
  refuse_unsafe_call(held);
  *pointer = bytes == 0 ? nullptr : allocate(held, bytes, current_device(), kind);
  return cudaSuccess;
}

cudaError_t free_now(void* pointer, MemoryKind kind) {
  if (!pointer) return cudaSuccess;
  Lock held = lock();
  refuse_unsafe_call(held);
  free_after_all_work(held, pointer, kind);
  return cudaSuccess;
}

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {
cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return call("cudaMalloc", Kind::uses,
              [&] { return allocate_now(pointer, bytes, MemoryKind::device); });
}
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return call("cudaMallocHost", Kind::uses,
              [&] { return allocate_now(pointer, bytes, MemoryKind::pinned); });
}
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  return call("cudaHostAlloc", Kind::uses,
              [&] { return allocate_now(pointer, bytes, MemoryKind::pinned); });
}
cudaError_t cudaFree(void* pointer) {
  return call("cudaFree", Kind::destroys, [&] { return free_now(pointer, MemoryKind::device); });
}
cudaError_t cudaFreeHost(void* pointer) {
  return call("cudaFreeHost", Kind::destroys,
              [&] { return free_now(pointer, MemoryKind::pinned); });
}
cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t handle) {
  return call("cudaMallocAsync", Kind::uses, [&] {
    if (!pointer) return cudaErrorInvalidValue;
    Lock held = lock();
    const StreamPointer stream = find_stream(held, handle);
    refuse_while_capturing(held, *stream);
    *pointer = nullptr;
    if (bytes == 0) return cudaSuccess;
    char* const memory = allocate(held, bytes, stream->device, MemoryKind::device, 256, false);
    submit(held, stream,
           {.name = "allocate", .bytes = bytes, .body = [=] { poison_memory(memory, bytes); }});
    *pointer = memory;
    return cudaSuccess;
  });
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  return call("cudaFreeAsync", Kind::destroys, [&] {
    if (!pointer) return cudaSuccess;
    Lock held = lock();
    const StreamPointer stream = find_stream(held, handle);
    refuse_while_capturing(held, *stream);
    const Allocation* const found = find_allocation(held, pointer);
    if (!found || found->begin != pointer || found->kind != MemoryKind::device) {
      forget_allocation(held, pointer, MemoryKind::device);
      return cudaErrorInvalidValue;
    }
    const Allocation a = *found;
    count_as_freed(held, a);
    submit(held, stream, {.name = "free", .bytes = a.bytes, .body = [a] {
                            Hidden hidden;
                            Lock inner = lock();
                            forget_allocation(inner, a.begin, MemoryKind::device);
                            inner.unlock();
                            release_memory(a);
                          }});
    return cudaSuccess;
  });
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  return call("cudaHostGetDevicePointer", Kind::uses, [&] {
    Lock held = lock();
    const Allocation* const a = find_allocation(held, host);
    if (!a || a->kind != MemoryKind::pinned) return cudaErrorInvalidValue;
    *device = host;
    return cudaSuccess;
  });
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call("cudaMemGetInfo", Kind::uses, [&] {
    const Lock held = lock();
    *total = state().memory_limit;
    *free = state().memory_limit - state().devices[current_device()].in_use;
    return cudaSuccess;
  });
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return call("cudaPointerGetAttributes", Kind::uses, [&] {
    if (!attributes) return cudaErrorInvalidValue;
    std::memset(attributes, 0, sizeof *attributes);
    Lock held = lock();
    const Allocation* const a = find_allocation(held, pointer);
    if (!a) {
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = cudaInvalidDeviceId;
      return cudaSuccess;
    }
    const bool pinned = a->kind == MemoryKind::pinned;
    attributes->type = pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    attributes->device = a->device;
    attributes->devicePointer = const_cast<void*>(pointer);
    attributes->hostPointer = pinned ? const_cast<void*>(pointer) : nullptr;
    return cudaSuccess;
  });
}
}
