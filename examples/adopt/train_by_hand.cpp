// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// GPT-2 trained data-parallel by hand: every rank holds all weights, gradients and moments.
#include <barrier>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "math.hpp"

using namespace adopt;

constexpr Size ranks = 2;
constexpr int steps = 12;
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

Layer layer_of(const Params& p, Size l) {
  return {p.qkv + l * 3 * C * C, p.proj + l * C * C, p.norm2 + l * C, p.up + l * 4 * C * C,
          p.down + l * 4 * C * C};
}

void train(Size rank) {
  std::vector<float> weights(total), m(total), v(total);
  std::vector<float>& gradients = gradients_of[rank];
  gradients.resize(total);
  initialize(weights.data());
  const Params w = point_into(weights.data()), g = point_into(gradients.data());
  const auto acts = std::make_unique<Acts>();
  Acts& a = *acts;
  const Cpu cpu;
  for (int k = 0; k < steps; ++k) {
    load_tokens(a.tokens, rank, Size(k), cpu);
    clear(gradients.data(), total, cpu);
    embed_forward(w, a, cpu);
    for (Size l = 0; l < L; ++l) { layer_forward(layer_of(w, l), next_gain(w, l), a, l, cpu); }
    head_forward(w.wte, a, cpu);
    const float loss = cross_entropy(a.logits, a.tokens + 1, a.losses, cpu);
    head_backward(w.wte, g.wte, a, cpu);
    for (Size l = L; l-- > 0;) {
      layer_backward(layer_of(w, l), layer_of(g, l), next_gain(w, l), next_gain(g, l), a, l, cpu);
    }
    embed_backward(w, g, a, cpu);
    all_reduce_mean(gradients);
    const AdamStep s = adam_step(k + 1);
    for (Size i = 0; i < total; ++i) adam(s, gradients[i], weights[i], m[i], v[i]);
    if (rank == 0) std::printf("step %2d loss %a\n", k, double(loss));
  }
}

int main() {
  std::thread other(train, Size{1});
  train(0);
  other.join();
}
