// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Way 1, only the sharded optimizer: the loop keeps its flat arrays, and each rank has a part of
// the moments.
#include <cstdio>
#include <zero/zero.hpp>

#include "problem.hpp"

using namespace ways_in;

void train(zero::ThreadCommunicator& comm) {
  zero::ShardedOptimizer optimizer(comm, zero::AdamW{.learning_rate = Adam::learning_rate}, total);
  const auto weights = optimizer.weights(), gradients = optimizer.gradients();
  for (Size i = 0; i < total; ++i) weights[i] = initial(i % per_layer);
  Activations a;
  for (int k = 0; k < steps; ++k) {
    next_input(a.x[0], comm.rank(), k);
    optimizer.zero_gradients();
    for (Size l = 0; l < layers; ++l) {
      const float* w = &weights[l * per_layer];
      forward(w, w + width * width, a.x[l], a.x[l + 1]);
    }
    const float loss = loss_and_gradient(a);
    for (Size l = layers; l-- > 0;) {
      float* g = &gradients[l * per_layer];
      backward(&weights[l * per_layer], g, g + width * width, a.x[l], a.d[l + 1], a.d[l]);
    }
    if (optimizer.step().skipped()) std::printf("skipped\n");
    if (comm.rank() == 0) std::printf("step %2d  loss %a\n", k, double(loss));
  }
}

int main() { zero::run_threads(ranks, train); }
