// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The sum of the squares of an array. May include base/.
#pragma once

#include <cstddef>
#include <zero/base/element.hpp>

namespace zero {

/// The sum of the squares of n floats (or bf16, or fp16), in double. Not finite if an element is
/// not, and only then.
///
/// Order:   the order of the additions depends on n only: neither on where the array lies nor on
/// the
///          compiler's vectors. A square of a float is exact in double, so that contraction of
///          multiplication and addition changes nothing. 0 for n = 0.
template <class T>
double square_norm(const T* values, std::size_t n) {
  constexpr std::size_t lanes = 16;
  double sums[lanes] = {};
  const auto add = [&](const T* part, std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) {
      const double value = to_float(part[k]);
      sums[k] += value * value;
    }
  };
  const std::size_t rest = n % lanes;
  for (std::size_t i = 0; i < n - rest; i += lanes) add(values + i, lanes);
  add(values + (n - rest), rest);
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t k = 0; k < half; ++k) sums[k] += sums[k + half];
  }
  return sums[0];
}
/// Of nothing.
inline double square_norm(std::nullptr_t, std::size_t) { return 0; }

}  // namespace zero
