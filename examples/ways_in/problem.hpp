// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What all programs of this folder train: a few linear layers over flat arrays, by pointers.
// Nothing in it knows of sharding.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace ways_in {

using Size = std::size_t;
inline constexpr Size width = 12, layers = 5, ranks = 2;
inline constexpr Size per_layer = width * width + width, total = layers * per_layer;
inline constexpr int steps = 10;

/// What goes into each layer and comes out of the last, and the gradients of that.
struct Activations {
  float x[layers + 1][width], d[layers + 1][width];
};

inline void forward(const float* weight, const float* bias, const float* in, float* out) {
  for (Size r = 0; r < width; ++r) {
    out[r] = bias[r];
    for (Size c = 0; c < width; ++c) out[r] += weight[r * width + c] * in[c];
  }
}
/// Gradients of weight and bias are added to; d_in is written.
inline void backward(const float* weight, float* d_weight, float* d_bias, const float* in,
                     const float* d_out, float* d_in) {
  for (Size c = 0; c < width; ++c) d_in[c] = 0;
  for (Size r = 0; r < width; ++r) {
    d_bias[r] += d_out[r];
    for (Size c = 0; c < width; ++c) {
      d_weight[r * width + c] += d_out[r] * in[c];
      d_in[c] += weight[r * width + c] * d_out[r];
    }
  }
}
/// The task is to return the input in reverse order: begins the backward pass.
inline float loss_and_gradient(Activations& a) {
  float loss = 0;
  for (Size i = 0; i < width; ++i) {
    a.d[layers][i] = a.x[layers][i] - a.x[0][width - 1 - i];
    loss += a.d[layers][i] * a.d[layers][i] / 2;
  }
  return loss;
}

inline void next_input(float* in, Size rank, int step) {
  for (Size i = 0; i < width; ++i) in[i] = float((Size(step) * 5 + rank * 3 + i * i) % 7) - 3;
}
/// The first value of element i of a layer: half the identity.
inline float initial(Size i) { return i < width * width && i % (width + 1) == 0 ? 0.5F : 0.0F; }

/// AdamW for one element: what the elements of step t, counted from 1, share, and the update.
struct Adam {
  static constexpr float learning_rate = 0.01F, weight_decay = 0.01F, b1 = 0.9F, b2 = 0.999F;
  float rate, root;  // with the corrections of the first steps in them
  explicit Adam(int t)
      : rate(float(learning_rate / (1 - std::pow(double(b1), t)))),
        root(float(1 / std::sqrt(1 - std::pow(double(b2), t)))) {}
  void operator()(float g, float& w, float& m, float& v) const {
    m = b1 * m + float(1 - double(b1)) * g;
    v = b2 * v + float(1 - double(b2)) * g * g;
    w -= rate * m / (std::sqrt(v) * root + 1e-8F) + learning_rate * weight_decay * w;
  }
};

}  // namespace ways_in
