// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The operations of gpt2.hpp on a GPU, one plain kernel each, and what both CUDA programs need of
// CUDA. No sum uses atomics, so that bits do not depend on timing.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "gpt2.hpp"

/// A call of CUDA or NCCL, for which 0 is success.
#define MUST(call)                                          \
  do {                                                      \
    if ((call) != 0) {                                      \
      std::fprintf(stderr, "%s does not succeed\n", #call); \
      std::exit(1);                                         \
    }                                                       \
  } while (false)

namespace adopt {

/// Where operations run: enqueued on a stream.
struct Gpu {
  cudaStream_t stream;
};

namespace kernels {

__device__ inline Size thread() { return Size{blockIdx.x} * blockDim.x + threadIdx.x; }

__global__ void matmul(float* out, const float* in, const float* w, Size inputs, Size outputs) {
  const Size k = thread(), t = k / outputs, o = k % outputs;
  if (k >= N * outputs) return;
  float sum = 0;
  for (Size i = 0; i < inputs; ++i) sum += in[t * inputs + i] * w[o * inputs + i];
  out[k] = sum;
}
__global__ void matmul_backward_in(float* d_in, const float* d_out, const float* w, Size inputs,
                                   Size outputs) {
  const Size k = thread(), t = k / inputs, i = k % inputs;
  if (k >= N * inputs) return;
  float sum = 0;
  for (Size o = 0; o < outputs; ++o) sum += d_out[t * outputs + o] * w[o * inputs + i];
  d_in[k] = sum;
}
__global__ void matmul_backward_weight(float* dw, const float* d_out, const float* in, Size inputs,
                                       Size outputs) {
  const Size k = thread(), o = k / inputs, i = k % inputs;
  if (k >= outputs * inputs) return;
  float sum = dw[k];
  for (Size t = 0; t < N; ++t) sum += d_out[t * outputs + o] * in[t * inputs + i];
  dw[k] = sum;
}

__device__ inline float scale_of(const float* row) {
  float square = 0;
  for (Size i = 0; i < C; ++i) square += row[i] * row[i];
  return 1 / std::sqrt(square / float(C) + 1e-5F);
}
__global__ void residual_norm(float* out, float* normed, const float* a, const float* b,
                              const float* gain) {
  const Size row = thread() * C;
  if (row >= N * C) return;
  for (Size i = row; i < row + C; ++i) out[i] = b == nullptr ? a[i] : a[i] + b[i];
  const float scale = scale_of(out + row);
  for (Size i = 0; i < C; ++i) normed[row + i] = out[row + i] * scale * gain[i];
}
__global__ void norm_backward(float* d_x, const float* d_out, const float* x, const float* gain) {
  const Size row = thread() * C;
  if (row >= N * C) return;
  const float scale = scale_of(x + row);
  float dot = 0;
  for (Size i = 0; i < C; ++i) dot += d_out[row + i] * gain[i] * x[row + i];
  for (Size i = 0; i < C; ++i)
    d_x[row + i] +=
        scale * (d_out[row + i] * gain[i] - x[row + i] * scale * scale * dot / float(C));
}
__global__ void norm_backward_gain(float* d_gain, const float* d_out, const float* x) {
  const Size i = thread();
  if (i >= C) return;
  for (Size row = 0; row < N * C; row += C)
    d_gain[i] += d_out[row + i] * x[row + i] * scale_of(x + row);
}

__global__ void squared_relu(float* out, const float* in) {
  const Size k = thread();
  if (k < N * 4 * C) out[k] = in[k] > 0 ? in[k] * in[k] : 0;
}
__global__ void squared_relu_backward(float* d, const float* in) {
  const Size k = thread();
  if (k < N * 4 * C) d[k] *= in[k] > 0 ? 2 * in[k] : 0;
}

/// One thread for each query of each head. Queries, keys and values of a head lie C apart.
__global__ void attention(float* att, float* mix, const float* qkv) {
  const Size k = thread(), b = k / (NH * T), h = k / T % NH, t = k % T;
  if (k >= B * NH * T) return;
  const float *q = qkv + (b * T + t) * 3 * C + h * HS, *first = qkv + b * T * 3 * C + h * HS;
  float *p = att + k * T, *out = mix + (b * T + t) * C + h * HS;
  float most = -1e30F, sum = 0;
  for (Size s = 0; s <= t; ++s) {
    p[s] = 0;
    for (Size i = 0; i < HS; ++i) p[s] += q[i] * first[s * 3 * C + C + i];
    p[s] /= std::sqrt(float(HS));
    if (p[s] > most) most = p[s];
  }
  for (Size s = 0; s <= t; ++s) sum += p[s] = std::exp(p[s] - most);
  for (Size i = 0; i < HS; ++i) out[i] = 0;
  for (Size s = 0; s <= t; ++s) {
    p[s] /= sum;
    for (Size i = 0; i < HS; ++i) out[i] += p[s] * first[s * 3 * C + 2 * C + i];
  }
}
/// d_att becomes the gradient of the scores, and d_qkv of the queries.
__global__ void attention_backward_query(float* d_qkv, float* d_att, const float* d_mix,
                                         const float* att, const float* qkv) {
  const Size k = thread(), b = k / (NH * T), h = k / T % NH, t = k % T;
  if (k >= B * NH * T) return;
  const float *p = att + k * T, *d = d_mix + (b * T + t) * C + h * HS;
  const float* first = qkv + b * T * 3 * C + h * HS;
  float *ds = d_att + k * T, *dq = d_qkv + (b * T + t) * 3 * C + h * HS, dot = 0;
  for (Size s = 0; s <= t; ++s) {
    ds[s] = 0;
    for (Size i = 0; i < HS; ++i) ds[s] += d[i] * first[s * 3 * C + 2 * C + i];
    dot += p[s] * ds[s];
  }
  for (Size i = 0; i < HS; ++i) dq[i] = 0;
  for (Size s = 0; s <= t; ++s) {
    ds[s] = p[s] * (ds[s] - dot) / std::sqrt(float(HS));
    for (Size i = 0; i < HS; ++i) dq[i] += ds[s] * first[s * 3 * C + C + i];
  }
}
/// One thread for each key and value of each head.
__global__ void attention_backward_key_value(float* d_qkv, const float* d_att, const float* d_mix,
                                             const float* att, const float* qkv) {
  const Size k = thread(), b = k / (NH * T), h = k / T % NH, s = k % T;
  if (k >= B * NH * T) return;
  float* dk = d_qkv + (b * T + s) * 3 * C + C + h * HS;
  for (Size i = 0; i < HS; ++i) {
    float key = 0, value = 0;
    for (Size t = s; t < T; ++t) {
      const Size score = (k - s + t) * T + s;
      key += d_att[score] * qkv[(b * T + t) * 3 * C + h * HS + i];
      value += att[score] * d_mix[(b * T + t) * C + h * HS + i];
    }
    dk[i] = key;
    dk[C + i] = value;
  }
}

__global__ void embed(const float* wte, const float* wpe, const int* tokens, float* out) {
  const Size k = thread(), t = k / C, i = k % C;
  if (k < N * C) out[k] = wte[Size(tokens[t]) * C + i] + wpe[t % T * C + i];
}
__global__ void unembed(float* d_wte, float* d_wpe, const int* tokens, const float* d) {
  const Size i = thread();
  if (i >= C) return;
  for (Size t = 0; t < N; ++t) {
    d_wte[Size(tokens[t]) * C + i] += d[t * C + i];
    d_wpe[t % T * C + i] += d[t * C + i];
  }
}
__global__ void cross_entropy(float* logits, const int* targets, float* losses) {
  const Size t = thread();
  if (t < N) losses[t] = token_loss(logits + t * V, targets[t]);
}

template <class... Parameters, class... Arguments>
void launch(Gpu on, Size threads, void (*kernel)(Parameters...), Arguments... arguments) {
  kernel<<<unsigned(threads + 63) / 64, 64, 0, on.stream>>>(arguments...);
  MUST(cudaGetLastError());
}

}  // namespace kernels

inline void matmul(float* out, const float* in, const float* w, Size inputs, Size outputs, Gpu on) {
  kernels::launch(on, N * outputs, kernels::matmul, out, in, w, inputs, outputs);
}
inline void matmul_backward(float* d_in, float* dw, const float* d_out, const float* in,
                            const float* w, Size inputs, Size outputs, Gpu on) {
  kernels::launch(on, N * inputs, kernels::matmul_backward_in, d_in, d_out, w, inputs, outputs);
  kernels::launch(on, outputs * inputs, kernels::matmul_backward_weight, dw, d_out, in, inputs,
                  outputs);
}
inline void residual_norm(float* out, float* normed, const float* a, const float* b,
                          const float* gain, Gpu on) {
  kernels::launch(on, N, kernels::residual_norm, out, normed, a, b, gain);
}
inline void norm_backward(float* d_x, float* d_gain, const float* d_out, const float* x,
                          const float* gain, Gpu on) {
  kernels::launch(on, N, kernels::norm_backward, d_x, d_out, x, gain);
  kernels::launch(on, C, kernels::norm_backward_gain, d_gain, d_out, x);
}
inline void squared_relu(float* out, const float* in, Gpu on) {
  kernels::launch(on, N * 4 * C, kernels::squared_relu, out, in);
}
inline void squared_relu_backward(float* d, const float* in, Gpu on) {
  kernels::launch(on, N * 4 * C, kernels::squared_relu_backward, d, in);
}
inline void attention(LayerActs& a, Gpu on) {
  kernels::launch(on, B * NH * T, kernels::attention, a.att, a.mix, a.qkv);
}
inline void attention_backward(float* d_qkv, const float* d_mix, LayerActs& a, float* d_att,
                               Gpu on) {
  kernels::launch(on, B * NH * T, kernels::attention_backward_query, d_qkv, d_att, d_mix, a.att,
                  a.qkv);
  kernels::launch(on, B * NH * T, kernels::attention_backward_key_value, d_qkv, d_att, d_mix, a.att,
                  a.qkv);
}
inline void embed(const float* wte, const float* wpe, const int* tokens, float* out, Gpu on) {
  kernels::launch(on, N * C, kernels::embed, wte, wpe, tokens, out);
}
inline void unembed(float* d_wte, float* d_wpe, const int* tokens, const float* d, Gpu on) {
  kernels::launch(on, C, kernels::unembed, d_wte, d_wpe, tokens, d);
}
/// Waits for the loss.
inline float cross_entropy(float* logits, const int* targets, float* losses, Gpu on) {
  float each[N], loss = 0;
  kernels::launch(on, N, kernels::cross_entropy, logits, targets, losses);
  MUST(cudaMemcpyAsync(each, losses, sizeof each, cudaMemcpyDeviceToHost, on.stream));
  MUST(cudaStreamSynchronize(on.stream));
  for (float x : each) loss += x;
  return loss / float(N);
}
inline void load_tokens(int* tokens, Size rank, Size step, Gpu on) {
  int batch[N + 1];
  next_batch(batch, rank, step);
  MUST(cudaMemcpyAsync(tokens, batch, sizeof batch, cudaMemcpyHostToDevice, on.stream));
  MUST(cudaStreamSynchronize(on.stream));
}
inline void clear(float* memory, Size count, Gpu on) {
  MUST(cudaMemsetAsync(memory, 0, count * sizeof(float), on.stream));
}
/// What the program makes for each rank, and takes apart when the rank has trained.
struct Rank {
  Size number;
  ncclComm_t comm;
  cudaStream_t compute, comms;
};
template <class F>
void run_rank(int rank, int ranks, ncclUniqueId id, F train) {
  Rank r{Size(rank), nullptr, nullptr, nullptr};
  MUST(cudaSetDevice(rank));
  MUST(ncclCommInitRank(&r.comm, ranks, id, rank));
  MUST(cudaStreamCreateWithFlags(&r.compute, cudaStreamNonBlocking));
  MUST(cudaStreamCreateWithFlags(&r.comms, cudaStreamNonBlocking));
  train(r);
  MUST(cudaStreamDestroy(r.comms));
  MUST(cudaStreamDestroy(r.compute));
  MUST(ncclCommDestroy(r.comm));
}
/// One thread and one GPU for each rank.
template <class F>
void run_ranks(int ranks, F train) {
  ncclUniqueId id;
  MUST(ncclGetUniqueId(&id));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back(run_rank<F>, rank, ranks, id, train);
}
/// Memory of the device, as this program allocates it.
struct Free {
  void operator()(void* memory) const { MUST(cudaFree(memory)); }
};
template <class Element>
std::unique_ptr<Element[], Free> allocate(Size count) {
  void* memory = nullptr;
  MUST(cudaMalloc(&memory, count * sizeof(Element)));
  return std::unique_ptr<Element[], Free>(static_cast<Element*>(memory));
}

}  // namespace adopt
