// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The last part of an update whose direction is known. Includes optim/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <zero/base/array.hpp>
#include <zero/layout/tensor.hpp>
#include <zero/optim/update.hpp>

namespace zero::detail {

/// Whether whole-matrix rules treat a tensor as a matrix: two dimensions, each above 1.
constexpr bool is_matrix(const Shape& shape) {
  return shape.rank == 2 && shape.dims[0] > 1 && shape.dims[1] > 1;
}

/// w <- w - (rate direction + decay w): an element rule, so that masters of any type are rounded
/// and refreshed as those of any other optimizer.
struct DirectionStep {
  static constexpr std::size_t states = 0;
  struct Coefficients {
    float rate, decay;
  };
  static Coefficients coefficients(std::int64_t, std::int64_t, bool) { return {}; }
  static constexpr void element(const Coefficients& c, float direction, float& master) {
    master -= c.rate * direction + c.decay * master;
  }
};
/// Moves the weights of `arrays` by an array of directions.
inline void move_by(const DirectionStep::Coefficients& c, float* direction,
                    const UpdateArrays& arrays) {
  UpdateArrays by = arrays;
  by.gradient = Array(direction, arrays.gradient.count);
  by.states = nullptr;
  zero::update<DirectionStep>(c, 1, 1, by);
}
/// Calls f(begin, gradients, count) for all elements in order, with the gradients that count.
template <class F>
void for_each_gradient(const Array& gradient, float divisor, float clip, F f) {
  float room[update_chunk];
  for (std::size_t begin = 0; begin < gradient.count; begin += update_chunk) {
    const std::size_t count = std::min(update_chunk, gradient.count - begin);
    const float* const from = load(gradient, begin, count, room);
    for (std::size_t i = 0; i < count; ++i) room[i] = from[i] / divisor * clip;
    f(begin, room, count);
  }
}

}  // namespace zero::detail
