// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Kernels: what nvcc's objects register, and launches.
#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "call.hpp"
#include "ptx.hpp"
#include "stream.hpp"

namespace emulator {
namespace {

struct Kernel {
  std::string name = {};     ///< As nvcc writes it,
  std::string written = {};  ///< and as people do.
  const void* fatbin = nullptr;
};
/// By the address of the host's stub. Entries never go: their addresses are handles.
std::unordered_map<const void*, Kernel>& kernels() {
  static auto* const only = new std::unordered_map<const void*, Kernel>;
  return *only;
}
const Kernel* find_kernel(Lock&, const void* stub) {
  const auto found = kernels().find(stub);
  return found == kernels().end() ? nullptr : &found->second;
}

std::string demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  const std::string written = text ? text : name;
  std::free(text);
  return written;
}

struct Configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

/// What the launch attributes and limits of compute capability 9.0 say.
bool possible(const Configuration& c) {
  const auto within = [](dim3 size, unsigned x, unsigned y, unsigned z) {
    return size.x >= 1 && size.y >= 1 && size.z >= 1 && size.x <= x && size.y <= y && size.z <= z;
  };
  return within(c.grid, 0x7fffffff, 65535, 65535) && within(c.block, 1024, 1024, 64) &&
         std::size_t{c.block.x} * c.block.y * c.block.z <= 1024 && c.shared_bytes <= 227 * 1024;
}

cudaError_t launch(const char* function, const Kernel* kernel, const Configuration& c,
                   void** arguments) {
  return call(function, Kind::uses, [&] {
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    if (!possible(c)) return cudaErrorInvalidConfiguration;
    Body body = ptx_launch(kernel->fatbin, kernel->name.c_str(), c.grid, c.block, c.shared_bytes,
                           arguments);
    if (!body) return cudaErrorInvalidDeviceFunction;
    Lock held = lock();
    submit(held, find_stream_of_current_device(held, c.stream),
           {.name = kernel->written, .body = std::move(body)});
    return cudaSuccess;
  });
}

const Kernel* kernel_of(const void* stub) {
  Hidden hidden;
  Lock held = lock();
  return find_kernel(held, stub);
}

/// What nvcc's objects hand over: the wrapper of crt/fatbinary_section.h.
struct FatBinaryWrapper {
  int magic;
  int version;
  const void* data;
  void* file;
};

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {
void** __cudaRegisterFatBinary(void* wrapper) {
  Hidden hidden;
  return new void*(const_cast<void*>(static_cast<FatBinaryWrapper*>(wrapper)->data));
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) { delete handle; }
void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  Hidden hidden;
  const Lock held = lock();
  kernels()[stub] = {name, demangled(name), *handle};
}
// Variables of device code have no address here: the interpreter refuses kernels that use them.
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, std::size_t, int, int) {}
char __cudaInitModule(void**) { return 1; }

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes,
                                     CUstream_st* stream) {
  Hidden hidden;
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes,
                                       void* stream) {
  Hidden hidden;
  if (configurations.empty()) return cudaErrorMissingConfiguration;
  const Configuration c = configurations.back();
  configurations.pop_back();
  *grid = c.grid;
  *block = c.block;
  *shared_bytes = c.shared_bytes;
  std::memcpy(stream, &c.stream, sizeof c.stream);
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  const Kernel* const found = kernel_of(stub);
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<Kernel*>(found));
  return found ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared_bytes, cudaStream_t stream) {
  return launch("cudaLaunchKernel", reinterpret_cast<const Kernel*>(kernel),
                {grid, block, shared_bytes, stream}, arguments);
}
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                    std::size_t shared_bytes, cudaStream_t stream) {
  return __cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes,
                            stream ? stream : cudaStreamPerThread);
}
cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared_bytes, cudaStream_t stream) {
  return launch("cudaLaunchKernel", kernel_of(stub), {grid, block, shared_bytes, stream},
                arguments);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* stub, void** arguments) {
  return launch("cudaLaunchKernelExC", kernel_of(stub),
                {c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream}, arguments);
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* stub) {
  return call("cudaFuncGetAttributes", Kind::uses, [&] {
    if (!attributes) return cudaErrorInvalidValue;
    if (!kernel_of(stub)) return cudaErrorInvalidDeviceFunction;
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->ptxVersion = 90;
    attributes->binaryVersion = 90;
    attributes->maxDynamicSharedSizeBytes = 48 * 1024;
    return cudaSuccess;
  });
}
cudaError_t cudaFuncSetAttribute(const void* stub, cudaFuncAttribute, int) {
  return call("cudaFuncSetAttribute", Kind::uses,
              [&] { return kernel_of(stub) ? cudaSuccess : cudaErrorInvalidDeviceFunction; });
}
cudaError_t cudaFuncGetName(const char** name, const void* stub) {
  return call("cudaFuncGetName", Kind::uses, [&] {
    const Kernel* const kernel = kernel_of(stub);
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    *name = kernel->name.c_str();
    return cudaSuccess;
  });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                   int block, std::size_t,
                                                                   unsigned) {
  return call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", Kind::uses, [&] {
    if (!blocks || block < 1) return cudaErrorInvalidValue;
    *blocks = block > 1024 ? 0 : 2048 / block;
    return cudaSuccess;
  });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* stub, int block,
                                                          std::size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, stub, block, shared_bytes,
                                                                cudaOccupancyDefault);
}
}
