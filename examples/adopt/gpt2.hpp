// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A small GPT-2 as people write it by hand: sizes, weights, activations, layers forward and
// backward, data. All programs of this folder use it, and nothing in it knows of sharding. What it
// calls with an `on` is in math.hpp for the host and in kernels.cuh for a GPU.
#pragma once

#include <cmath>
#include <cstddef>
#include <iterator>

#ifdef __CUDACC__
#define ADOPT_BOTH __host__ __device__
#else
#define ADOPT_BOTH
#endif

namespace adopt {

using Size = std::size_t;
inline constexpr Size L = 3, C = 16, V = 32, T = 8, B = 2, NH = 2, HS = C / NH, N = B * T;

/// Pointers into one allocation; tensors of layers are stacked: layer l begins at l times its size.
struct Params {
  float *wte = nullptr, *wpe = nullptr, *norm1 = nullptr, *normf = nullptr, *qkv = nullptr,
        *proj = nullptr, *norm2 = nullptr, *up = nullptr, *down = nullptr;
};
inline constexpr Size sizes[] = {V * C,   T* C, L* C,         C,           L * 3 * C* C,
                                 L* C* C, L* C, L * 4 * C* C, L * 4 * C* C};
inline constexpr Size total = [] {
  Size sum = 0;
  for (Size s : sizes) sum += s;
  return sum;
}();
inline Params point_into(float* memory) {
  Params p;
  float** members[] = {&p.wte,  &p.wpe,   &p.norm1, &p.normf, &p.qkv,
                       &p.proj, &p.norm2, &p.up,    &p.down};
  for (Size k = 0; k < std::size(sizes); memory += sizes[k++]) *members[k] = memory;
  return p;
}
/// The first value of element i of tensor k.
inline float initial(Size k, Size i) {
  if (k == 2 || k == 3 || k == 6) return 1;  // norms
  unsigned bits = unsigned(k * 7919 + i) * 2654435761U;
  bits = (bits ^ (bits >> 15)) * 2246822519U;
  return (float((bits ^ (bits >> 13)) % 2001) / 1000 - 1) * 0.2F;
}
inline void initialize(float* memory) {
  for (Size k = 0; k < std::size(sizes); memory += sizes[k++])
    for (Size i = 0; i < sizes[k]; ++i) memory[i] = initial(k, i);
}

/// The weights of one layer, wherever they lie. A layer also gets the gain of the norm that follows
/// it, which belongs to the next layer, since residual and norm are one loop, or one kernel.
struct Layer {
  float *qkv, *proj, *norm2, *up, *down;
};
inline float* next_gain(const Params& p, Size l) {
  return l + 1 < L ? p.norm1 + (l + 1) * C : p.normf;
}

struct LayerActs {
  float in[N * C], norm1[N * C], qkv[N * 3 * C], att[B * NH * T * T], mix[N * C], mid[N * C],
      norm2[N * C], up[N * 4 * C], act[N * 4 * C];
};
/// All that a step computes with; `a.layer[L]` holds the input of the head and its norm.
struct Acts {
  LayerActs layer[L + 1];
  float logits[N * V], losses[N], part[N * C], wide[N * 4 * C];
  float d_stream[N * C], d_norm[N * C];  // of the stream, and of the norm that follows it
  float d_att[B * NH * T * T];
  int tokens[N + 1];
};

template <class On>
void embed_forward(const Params& w, Acts& a, On on) {
  LayerActs& first = a.layer[0];
  embed(w.wte, w.wpe, a.tokens, first.in, on);
  residual_norm(first.in, first.norm1, first.in, nullptr, w.norm1, on);
}
template <class On>
void embed_backward(const Params& w, const Params& g, Acts& a, On on) {
  norm_backward(a.d_stream, g.norm1, a.d_norm, a.layer[0].in, w.norm1, on);
  unembed(g.wte, g.wpe, a.tokens, a.d_stream, on);
}

/// From in and norm1 of layer l to those of the next.
template <class On>
void layer_forward(const Layer& w, const float* next_gain, Acts& all, Size l, On on) {
  LayerActs &a = all.layer[l], &next = all.layer[l + 1];
  matmul(a.qkv, a.norm1, w.qkv, C, 3 * C, on);
  attention(a, on);
  matmul(all.part, a.mix, w.proj, C, C, on);
  residual_norm(a.mid, a.norm2, a.in, all.part, w.norm2, on);
  matmul(a.up, a.norm2, w.up, C, 4 * C, on);
  squared_relu(a.act, a.up, on);
  matmul(all.part, a.act, w.down, 4 * C, C, on);
  residual_norm(next.in, next.norm1, a.mid, all.part, next_gain, on);
}
/// d_stream and d_norm are gradients of in and norm1 of the next layer, and become those of this.
/// Gradients of weights are added to.
template <class On>
void layer_backward(const Layer& w, const Layer& g, const float* next_gain, float* d_next_gain,
                    Acts& all, Size l, On on) {
  LayerActs &a = all.layer[l], &next = all.layer[l + 1];
  norm_backward(all.d_stream, d_next_gain, all.d_norm, next.in, next_gain, on);
  matmul_backward(all.wide, g.down, all.d_stream, a.act, w.down, 4 * C, C, on);
  squared_relu_backward(all.wide, a.up, on);
  matmul_backward(all.part, g.up, all.wide, a.norm2, w.up, C, 4 * C, on);
  norm_backward(all.d_stream, g.norm2, all.part, a.mid, w.norm2, on);
  matmul_backward(all.part, g.proj, all.d_stream, a.mix, w.proj, C, C, on);
  attention_backward(all.wide, all.part, a, all.d_att, on);
  matmul_backward(all.d_norm, g.qkv, all.wide, a.norm1, w.qkv, C, 3 * C, on);
}

/// The head reads the embedding of the tokens.
template <class On>
void head_forward(const float* wte, Acts& a, On on) {
  matmul(a.logits, a.layer[L].norm1, wte, C, V, on);
}
template <class On>
void head_backward(const float* wte, float* d_wte, Acts& a, On on) {
  clear(a.d_stream, N * C, on);
  matmul_backward(a.d_norm, d_wte, a.logits, a.layer[L].norm1, wte, C, V, on);
}

/// The loss of one token; its logits become the gradient of the mean.
ADOPT_BOTH inline float token_loss(float* logits, int target) {
  float most = logits[0], sum = 0;
  for (Size v = 1; v < V; ++v) most = logits[v] > most ? logits[v] : most;
  for (Size v = 0; v < V; ++v) sum += std::exp(logits[v] - most);
  const float loss = std::log(sum) + most - logits[target];
  for (Size v = 0; v < V; ++v) logits[v] = std::exp(logits[v] - most) / sum / float(N);
  logits[target] -= 1 / float(N);
  return loss;
}

/// tokens [N + 1]: a pattern that can be learned, another piece of it for each rank and step.
inline void next_batch(int* tokens, Size rank, Size step) {
  for (Size t = 0; t <= N; ++t) tokens[t] = int((t * 5 + rank * 11 + step * 3) % V);
}

/// AdamW: what the elements of a step share, and the update of one element.
struct AdamStep {
  float rate, root_scale;  // with the corrections for the first steps in them
};
inline AdamStep adam_step(long t) {
  return {float(0.01 / (1 - std::pow(0.9, double(t)))),
          float(1 / std::sqrt(1 - std::pow(0.95, double(t))))};
}
ADOPT_BOTH inline void adam(AdamStep s, float g, float& w, float& m, float& v) {
  m = 0.9F * m + 0.1F * g;
  v = 0.95F * v + 0.05F * g * g;
  w -= s.rate * m / (std::sqrt(v) * s.root_scale + 1e-8F) + 0.001F * w;
}

}  // namespace adopt
