// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// GPT-2 trained data-parallel by hand: every rank holds all weights, gradients and moments.
#include <barrier>
#include <cstdio>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "gpt2.hpp"

using namespace adopt;

constexpr Size ranks = 2;

// Pointers into one allocation; tensors of layers are stacked: layer l begins at l times its size.
struct Params {
  float *wte, *wpe, *norm1, *normf, *qkv, *proj, *norm2, *up, *down;
};
constexpr Size sizes[] = {V * C,   T* C, L* C,         C,           L * 3 * C* C,
                          L* C* C, L* C, L * 4 * C* C, L * 4 * C* C};
constexpr Size total = [] {
  Size sum = 0;
  for (Size s : sizes) sum += s;
  return sum;
}();

Params point_into(float* memory) {
  Params p;
  float** members[] = {&p.wte,  &p.wpe,   &p.norm1, &p.normf, &p.qkv,
                       &p.proj, &p.norm2, &p.up,    &p.down};
  for (Size k = 0; k < std::size(sizes); memory += sizes[k++]) *members[k] = memory;
  return p;
}
void initialize(float* memory) {
  for (Size k = 0; k < std::size(sizes); memory += sizes[k++])
    for (Size i = 0; i < sizes[k]; ++i)
      memory[i] = k == 2 || k == 3 || k == 6 ? 1.0F : initial(k, i);
}
Layer layer_of(const Params& p, Size l) {
  return {p.qkv + l * 3 * C * C, p.proj + l * C * C, p.norm2 + l * C, p.up + l * 4 * C * C,
          p.down + l * 4 * C * C};
}

std::barrier<> together(ranks);
std::vector<float> gradients_of[ranks];

// The hand-placed all-reduce: sums in the order of the ranks, divides by their number.
void all_reduce_mean(std::vector<float>& mine) {
  std::vector<float> sum(total);
  together.arrive_and_wait();
  for (Size r = 0; r < ranks; ++r)
    for (Size i = 0; i < total; ++i) sum[i] += gradients_of[r][i];
  together.arrive_and_wait();
  for (Size i = 0; i < total; ++i) mine[i] = sum[i] / float(ranks);
}

void train(Size rank) {
  std::vector<float> weights(total), m(total), v(total);
  std::vector<float>& gradients = gradients_of[rank];
  gradients.assign(total, 0);
  initialize(weights.data());
  const Params w = point_into(weights.data()), g = point_into(gradients.data());
  const auto acts = std::make_unique<Acts>();
  Acts& a = *acts;
  int tokens[N + 1];
  for (int step = 0; step < steps; ++step) {
    next_batch(tokens, rank, Size(step));
    for (float& x : gradients) x = 0;
    embed(w.wte, w.wpe, tokens, a.layer[0].in);
    residual_norm(a.layer[0].in, a.layer[0].norm1, a.layer[0].in, nullptr, w.norm1);
    for (Size l = 0; l < L; ++l) {
      const float* next = l + 1 < L ? w.norm1 + (l + 1) * C : w.normf;
      layer_forward(layer_of(w, l), next, a.layer[l], l + 1 < L ? a.layer[l + 1].in : a.out,
                    l + 1 < L ? a.layer[l + 1].norm1 : a.normed);
    }
    matmul(a.logits, a.normed, w.wte, C, V);
    const float loss = cross_entropy(a.logits, tokens + 1);
    for (float& x : a.d_stream) x = 0;
    matmul_backward(a.d_norm, g.wte, a.logits, a.normed, w.wte, C, V);
    for (Size l = L; l-- > 0;) {
      const float* next = l + 1 < L ? w.norm1 + (l + 1) * C : w.normf;
      float* d_next = l + 1 < L ? g.norm1 + (l + 1) * C : g.normf;
      layer_backward(layer_of(w, l), layer_of(g, l), next, d_next, a.layer[l],
                     l + 1 < L ? a.layer[l + 1].in : a.out, a);
    }
    norm_backward(a.d_stream, g.norm1, a.d_norm, a.layer[0].in, w.norm1);
    embed_backward(g.wte, g.wpe, tokens, a.d_stream);
    all_reduce_mean(gradients);
    const AdamStep s = adam_step(step + 1);
    for (Size i = 0; i < total; ++i) adam(s, gradients[i], weights[i], m[i], v[i]);
    if (rank == 0) std::printf("step %2d loss %a\n", step, double(loss));
  }
}

int main() {
  std::thread other(train, Size{1});
  train(0);
  other.join();
}
