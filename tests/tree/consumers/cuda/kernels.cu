// SPDX-License-Identifier: Apache-2.0
// A hand-written kernel, and one of zero's.
#include <zero/optim/cast.cuh>

__global__ void double_it(float* x, unsigned size) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) x[i] *= 2;
}
void double_and_narrow(cudaStream_t stream, float* x, zero::bf16* narrow, unsigned size) {
  double_it<<<(size + 255) / 256, 256, 0, stream>>>(x, size);
  zero::cast(stream, {x, size, zero::DataType::fp32}, {narrow, size, zero::DataType::bf16});
}
