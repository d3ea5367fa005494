// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Way 2, ShardedTensor alone: the collectives and nothing else; the update stays the loop's own.
#include <cstdio>
#include <zero/zero.hpp>

#include "problem.hpp"

using namespace ways_in;

void train(zero::ThreadCommunicator& comm) {
  zero::ShardedTensor<float, zero::ThreadCommunicator> w_part(comm, {total}), g_part(comm, {total});
  const Size owned = w_part.shard().size(), padded = w_part.padded();
  std::vector<float> weights(padded), gradients(padded), m(owned), v(owned);
  for (Size i = 0; i < total; ++i) weights[i] = initial(i % per_layer);
  w_part.assign(std::span(weights).first(total));
  Activations a;
  for (int k = 0; k < steps; ++k) {
    next_input(a.x[0], comm.rank(), k);
    for (float& g : gradients) g = 0;
    for (Size l = 0; l < layers; ++l) {
      const float* w = &weights[l * per_layer];
      forward(w, w + width * width, a.x[l], a.x[l + 1]);
    }
    const float loss = loss_and_gradient(a);
    for (Size l = layers; l-- > 0;) {
      float* g = &gradients[l * per_layer];
      backward(&weights[l * per_layer], g, g + width * width, a.x[l], a.d[l + 1], a.d[l]);
    }
    g_part.reduce_scatter(gradients, zero::Reduction::average);
    const Adam adam(k + 1);
    for (Size i = 0; i < owned; ++i) adam(g_part.shard()[i], w_part.shard()[i], m[i], v[i]);
    w_part.all_gather(weights);
    if (comm.rank() == 0) std::printf("step %2d  loss %a\n", k, double(loss));
  }
}

int main() { zero::run_threads(ranks, train); }
