// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Devices: which there are and what they can do, as compute capability 9.0.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "call.hpp"
#include "graph.hpp"
#include "memory.hpp"
#include "nccl.hpp"

namespace emulator {
namespace {

constexpr int multiprocessors = 4;

bool exists(int device) { return device >= 0 && device < state().device_count; }

int attribute_value(cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: return 9;
    case cudaDevAttrComputeCapabilityMinor: return 0;
    case cudaDevAttrMultiProcessorCount: return multiprocessors;
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrMaxThreadsPerBlock: return 1024;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return 2048;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return 32;
    case cudaDevAttrMaxBlockDimX: return 1024;
    case cudaDevAttrMaxBlockDimY: return 1024;
    case cudaDevAttrMaxBlockDimZ: return 64;
    case cudaDevAttrMaxGridDimX: return 0x7fffffff;
    case cudaDevAttrMaxGridDimY: return 65535;
    case cudaDevAttrMaxGridDimZ: return 65535;
    case cudaDevAttrMaxSharedMemoryPerBlock: return 48 * 1024;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return 227 * 1024;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return 228 * 1024;
    case cudaDevAttrReservedSharedMemoryPerBlock: return 1024;
    case cudaDevAttrMaxRegistersPerBlock: return 65536;
    case cudaDevAttrMaxRegistersPerMultiprocessor: return 65536;
    case cudaDevAttrTextureAlignment: return 512;
    case cudaDevAttrUnifiedAddressing: return 1;
    case cudaDevAttrConcurrentKernels: return 1;
    case cudaDevAttrAsyncEngineCount: return 3;
    case cudaDevAttrMemoryPoolsSupported: return 1;
    case cudaDevAttrClockRate: return 1000000;
    case cudaDevAttrMemoryClockRate: return 1000000;
    case cudaDevAttrGlobalMemoryBusWidth: return 4096;
    case cudaDevAttrL2CacheSize: return 1 << 20;
    default: return 0;
  }
}

}  // namespace

int devices_at_the_start() {
  const char* count = std::getenv("ZERO_EMULATOR_DEVICES");
  return count == nullptr ? 8 : std::clamp(std::atoi(count), 0, most_devices);
}

void set_device_count(int count) {
  Hidden hidden;
  const Lock held = lock();
  state().device_count = std::clamp(count, 0, most_devices);
}

Live live() {
  Hidden hidden;
  Lock held = lock();
  const MemoryCounts memory = count_allocations(held);
  const GraphCounts graphs = count_graphs(held);
  const NcclCounts nccl = count_nccl(held);
  return {.device_allocations = memory.device,
          .pinned_allocations = memory.pinned,
          .streams = state().streams.size(),
          .events = state().events.size(),
          .graphs = graphs.graphs,
          .executable_graphs = graphs.executable,
          .communicators = nccl.communicators,
          .reduction_operators = nccl.operators,
          .registrations = nccl.registrations};
}

std::string leaks() {
  const Live now = live();
  std::string text;
  const auto add = [&](std::size_t count, const char* what) {
    if (count == 0) return;
    if (!text.empty()) text += ", ";
    text += std::to_string(count) + " " + what;
  };
  add(now.device_allocations, "device allocations");
  add(now.pinned_allocations, "pinned allocations");
  add(now.streams, "streams");
  add(now.events, "events");
  add(now.graphs, "graphs");
  add(now.executable_graphs, "executable graphs");
  add(now.communicators, "communicators");
  add(now.reduction_operators, "reduction operators");
  add(now.registrations, "registrations");
  return text;
}

}  // namespace emulator

using namespace emulator;

extern "C" {
cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", Kind::asks, [&] {
    if (!count) return cudaErrorInvalidValue;
    const Lock held = lock();
    *count = state().device_count;
    return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
  });
}
cudaError_t cudaGetDevice(int* device) {
  return call("cudaGetDevice", Kind::asks, [&] {
    if (!device) return cudaErrorInvalidValue;
    *device = current_device();
    return cudaSuccess;
  });
}
cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", Kind::asks, [&] {
    const Lock held = lock();
    if (!exists(device)) return cudaErrorInvalidDevice;
    current_device() = device;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call("cudaDeviceGetAttribute", Kind::asks, [&] {
    const Lock held = lock();
    if (!value) return cudaErrorInvalidValue;
    if (!exists(device)) return cudaErrorInvalidDevice;
    *value = attribute_value(attribute);
    return cudaSuccess;
  });
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call("cudaGetDeviceProperties", Kind::asks, [&] {
    const Lock held = lock();
    if (!properties) return cudaErrorInvalidValue;
    if (!exists(device)) return cudaErrorInvalidDevice;
    std::memset(properties, 0, sizeof *properties);
    std::snprintf(properties->name, sizeof properties->name, "Emulated device %d", device);
    properties->major = 9;
    properties->multiProcessorCount = multiprocessors;
    properties->totalGlobalMem = state().memory_limit;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->sharedMemPerBlock = 48 * 1024;
    properties->sharedMemPerBlockOptin = 227 * 1024;
    properties->sharedMemPerMultiprocessor = 228 * 1024;
    properties->regsPerBlock = 65536;
    properties->unifiedAddressing = 1;
    properties->concurrentKernels = 1;
    properties->pciBusID = device;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call("cudaDeviceGetStreamPriorityRange", Kind::asks, [&] {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return call("cudaDeviceGetPCIBusId", Kind::asks, [&] {
    const Lock held = lock();
    if (!text || length < 13) return cudaErrorInvalidValue;
    if (!exists(device)) return cudaErrorInvalidDevice;
    std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", device);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call("cudaDeviceCanAccessPeer", Kind::asks, [&] {
    const Lock held = lock();
    if (!exists(device) || !exists(peer)) return cudaErrorInvalidDevice;
    *can = 0;
    return cudaSuccess;
  });
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  return call("cudaRuntimeGetVersion", Kind::asks, [&] {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}
cudaError_t cudaDriverGetVersion(int* version) {
  return call("cudaDriverGetVersion", Kind::asks, [&] {
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}
}
