// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The planted mistakes that need kernels.
#include <cstdio>

#include "kernels.hpp"

namespace {

__global__ void fill(float* to, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    to[i] = static_cast<float>(i);
  }
}
__global__ void copy(float* to, const float* from, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    to[i] = from[i];
  }
}
constexpr int count = 1000;

struct Streams {
  cudaStream_t a, b;
  cudaEvent_t event;
  Streams() {
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  }
  void finish() const {
    std::printf("%s\n", cudaGetErrorName(cudaStreamSynchronize(a)));
    std::printf("%s\n", cudaGetErrorName(cudaStreamSynchronize(b)));
  }
};

}  // namespace

void kernel_stores_past_the_end(bool mended) {
  const Streams streams;
  float* memory;
  cudaMalloc(&memory, count * sizeof(float));
  fill<<<2, 128, 0, streams.a>>>(memory, mended ? count : count + 1);
  streams.finish();
}

void kernel_uses_freed_memory(bool mended) {
  const Streams streams;
  float* memory;
  cudaMallocAsync(&memory, count * sizeof(float), streams.a);
  if (!mended) cudaFreeAsync(memory, streams.a);
  fill<<<2, 128, 0, streams.a>>>(memory, count);
  streams.finish();
}

void kernels_race(bool mended) {
  const Streams streams;
  float *from, *to;
  cudaMalloc(&from, count * sizeof(float));
  cudaMalloc(&to, count * sizeof(float));
  fill<<<2, 128, 0, streams.a>>>(from, count);
  if (mended) {
    cudaEventRecord(streams.event, streams.a);
    cudaStreamWaitEvent(streams.b, streams.event, 0);
  }
  copy<<<2, 128, 0, streams.b>>>(to, from, count);
  streams.finish();
}
