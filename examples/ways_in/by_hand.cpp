// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A data-parallel loop as it is before zero: flat arrays, whole on each rank, and a mean by hand.
#include <barrier>
#include <cstdio>
#include <thread>

#include "problem.hpp"

using namespace ways_in;

std::barrier<> together(ranks);
std::vector<float> gradients_of[ranks];

// Sums in the order of the ranks, divides by their number.
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
  gradients.resize(total);
  for (Size i = 0; i < total; ++i) weights[i] = initial(i % per_layer);
  Activations a;
  for (int k = 0; k < steps; ++k) {
    next_input(a.x[0], rank, k);
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
    all_reduce_mean(gradients);
    const Adam adam(k + 1);
    for (Size i = 0; i < total; ++i) adam(gradients[i], weights[i], m[i], v[i]);
    if (rank == 0) std::printf("step %2d  loss %a\n", k, double(loss));
  }
}

int main() {
  std::thread other(train, Size{1});
  train(0);
  other.join();
}
