// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The kernels of CudaMath: what they compute is said at the functions of HostMath. Includes
// operands.hpp.
#pragma once

#include <cstdint>

#include "../operands.hpp"

// Any grid will do, of blocks of block_threads. Each sum is made in an order that depends on sizes
// only: by a warp, or by a thread, never by atomics.

namespace gpt::kernels {

inline constexpr unsigned block_threads = 256, warp_threads = 32;

/// Calls f(i) for each i below `count`, on a thread of the grid each.
template <class F>
__device__ void for_each(Size count, F f) {
  const Size threads = Size{gridDim.x} * blockDim.x;
  for (Size i = Size{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += threads) f(i);
}
/// Calls f(row, lane) for each row below `rows`, on a warp of the grid each.
template <class F>
__device__ void for_each_row(Size rows, F f) {
  const Size warps = Size{gridDim.x} * (blockDim.x / warp_threads);
  for (Size row = (Size{blockIdx.x} * blockDim.x + threadIdx.x) / warp_threads; row < rows;
       row += warps)
    f(row, threadIdx.x % warp_threads);
}

/// The same bits on all lanes: at each turn both halves of a pair add the same two numbers.
template <class Number, class Join>
__device__ Number over_lanes(Number mine, Join join) {
  for (unsigned distance = warp_threads / 2; distance > 0; distance /= 2)
    mine = join(mine, __shfl_xor_sync(~0U, mine, distance));
  return mine;
}
/// term(0) + ... + term(n - 1), on all lanes of a warp.
template <class Term>
__device__ float sum_by_warp(Size n, unsigned lane, Term term) {
  float sum = 0;
  for (Size i = lane; i < n; i += warp_threads) sum += term(i);
  return over_lanes(sum, [](float a, float b) { return a + b; });
}

__global__ void embedding_forward(float* out, const float* byte, const float* position,
                                  const std::uint8_t* bytes, EmbeddingShape s) {
  for_each(s.tokens * s.width, [&](Size e) {
    const Size t = e / s.width, i = e % s.width;
    out[e] = byte[bytes[t] * s.width + i] + position[t % s.length * s.width + i];
  });
}
/// One thread for each weight looks for the tokens that used it: slower than atomics, and the same
/// bits each time.
__global__ void embedding_byte_backward(float* d_byte, const float* d_out,
                                        const std::uint8_t* bytes, EmbeddingShape s, Size classes) {
  for_each(classes * s.width, [&](Size e) {
    const Size byte = e / s.width, i = e % s.width;
    float sum = d_byte[e];
    for (Size t = 0; t < s.tokens; ++t)
      if (bytes[t] == byte) sum += d_out[t * s.width + i];
    d_byte[e] = sum;
  });
}
__global__ void embedding_position_backward(float* d_position, const float* d_out,
                                            EmbeddingShape s) {
  const Size row = s.length * s.width;
  for_each(row, [&](Size e) {
    float sum = d_position[e];
    for (Size i = e; i < s.tokens * s.width; i += row) sum += d_out[i];
    d_position[e] = sum;
  });
}

__global__ void layer_norm_forward(float* out, float* mean, float* inverse_deviation,
                                   const float* in, const float* gain, Size tokens, Size width) {
  for_each_row(tokens, [&](Size t, unsigned lane) {
    const float* row = in + t * width;
    const auto size = static_cast<float>(width);
    const float m = sum_by_warp(width, lane, [&](Size i) { return row[i]; }) / size;
    const float variance =
        sum_by_warp(width, lane, [&](Size i) { return (row[i] - m) * (row[i] - m); }) / size;
    const float scale = 1 / sqrtf(variance + 1e-5F);
    for (Size i = lane; i < width; i += warp_threads)
      out[t * width + i] = (row[i] - m) * scale * gain[i];
    if (lane != 0) return;
    mean[t] = m;
    inverse_deviation[t] = scale;
  });
}
__global__ void layer_norm_backward(float* d_in, const float* d_out, const float* in,
                                    const float* gain, const float* mean,
                                    const float* inverse_deviation, Size tokens, Size width) {
  for_each_row(tokens, [&](Size t, unsigned lane) {
    const float *x = in + t * width, *d = d_out + t * width;
    const float m = mean[t], scale = inverse_deviation[t], size = static_cast<float>(width);
    const float average = sum_by_warp(width, lane, [&](Size i) { return d[i] * gain[i]; }) / size;
    const float slope =
        sum_by_warp(width, lane, [&](Size i) { return d[i] * gain[i] * ((x[i] - m) * scale); }) /
        size;
    for (Size i = lane; i < width; i += warp_threads)
      d_in[t * width + i] += scale * (d[i] * gain[i] - average - (x[i] - m) * scale * slope);
  });
}
/// A block sums the tokens of 32 columns at a time: each of its 8 warps those of every eighth
/// token, and the first warp these sums.
__global__ void layer_norm_gain_backward(float* d_gain, const float* d_out, const float* in,
                                         const float* mean, const float* inverse_deviation,
                                         Size tokens, Size width) {
  constexpr unsigned warps = block_threads / warp_threads;
  __shared__ float sums[warps][warp_threads];
  const unsigned lane = threadIdx.x % warp_threads, warp = threadIdx.x / warp_threads;
  for (Size first = Size{blockIdx.x} * warp_threads; first < width;
       first += Size{gridDim.x} * warp_threads) {
    const Size i = first + lane;
    float sum = 0;
    for (Size t = warp; t < tokens && i < width; t += warps)
      sum += d_out[t * width + i] * ((in[t * width + i] - mean[t]) * inverse_deviation[t]);
    sums[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && i < width) {
      for (unsigned w = 1; w < warps; ++w) sum += sums[w][lane];
      d_gain[i] += sum;
    }
    __syncthreads();
  }
}

__global__ void gelu_forward(float* out, const float* in, Size count) {
  for_each(count, [&](Size i) { out[i] = gelu(in[i]); });
}
__global__ void gelu_backward(float* d, const float* in, Size count) {
  for_each(count, [&](Size i) { d[i] *= gelu_slope(in[i]); });
}

/// row[0 .. n) = softmax(row[0 .. n)); returns the log of the sum of e^row on all lanes.
__device__ inline float softmax_by_warp(float* row, Size n, unsigned lane) {
  float largest = row[0];
  for (Size i = lane; i < n; i += warp_threads) largest = fmaxf(largest, row[i]);
  largest = over_lanes(largest, [](float a, float b) { return fmaxf(a, b); });
  const float sum =
      sum_by_warp(n, lane, [&](Size i) { return row[i] = exponential(row[i] - largest); });
  const float inverse = 1 / sum;
  for (Size i = lane; i < n; i += warp_threads) row[i] *= inverse;
  return largest + logf(sum);
}

__global__ void softmax_causal_forward(float* scores, Size matrices, Size length) {
  for_each_row(matrices * length, [&](Size r, unsigned lane) {
    float* row = scores + r * length;
    const Size seen = r % length + 1;
    softmax_by_warp(row, seen, lane);
    for (Size i = seen + lane; i < length; i += warp_threads) row[i] = 0;
  });
}
__global__ void softmax_causal_backward(float* d, const float* chances, Size matrices,
                                        Size length) {
  for_each_row(matrices * length, [&](Size r, unsigned lane) {
    float* row = d + r * length;
    const float* chance = chances + r * length;
    const Size seen = r % length + 1;
    const float dot = sum_by_warp(seen, lane, [&](Size i) { return chance[i] * row[i]; });
    for (Size i = lane; i < length; i += warp_threads)
      row[i] = i < seen ? chance[i] * (row[i] - dot) : 0;
  });
}

__global__ void softmax_cross_entropy(float* losses, float* logits, const std::uint8_t* targets,
                                      float scale, Size tokens, Size classes) {
  for_each_row(tokens, [&](Size t, unsigned lane) {
    float* row = logits + t * classes;
    const float chosen = row[targets[t]];
    __syncwarp();  // all lanes have read it before one of them overwrites it
    const float loss = softmax_by_warp(row, classes, lane) - chosen;
    for (Size i = lane; i < classes; i += warp_threads)
      row[i] = row[i] * scale - (i == targets[t] ? scale : 0);
    if (lane == 0) losses[t] = loss;
  });
}
/// By one block: *sum += the mean of the losses.
__global__ void add_mean(double* sum, const float* losses, Size tokens) {
  __shared__ double sums[block_threads];
  double mine = 0;
  for (Size t = threadIdx.x; t < tokens; t += block_threads) mine += losses[t];
  sums[threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned i = 1; i < block_threads; ++i) mine += sums[i];
  *sum += mine / static_cast<double>(tokens);
}

}  // namespace gpt::kernels
