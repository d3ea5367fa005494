// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Sizes, and the functions of single numbers and rows that every way to compute shares. Includes
// zero/base/host_device.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <zero/base/host_device.hpp>

namespace gpt {

using Size = std::int64_t;

/// The sum of term(0) ... term(n - 1) in sixteen interleaved partial sums, which fill vector
/// registers.
template <class Real, class Term>
Real sum_of(Size n, Term term) {
  constexpr Size lanes = 16;
  Real partial[lanes] = {};
  Size i = 0;
  for (; i + lanes <= n; i += lanes)
    for (Size lane = 0; lane < lanes; ++lane) partial[lane] += term(i + lane);
  for (Size lane = 0; lane < n - i; ++lane) partial[lane] += term(i + lane);
  for (Size width = lanes / 2; width > 0; width /= 2)
    for (Size lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  return partial[0];
}

/// e^x with an error of 2 units in the last place; without branches, so loops over it vectorise.
/// x is clamped to [-87, 88], where the result is a normal number.
ZERO_HOST_DEVICE inline float exponential(float x) {
  constexpr float to_integer = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float shifted = x * 1.44269504f + to_integer;  // its low bits hold n = round(x / ln 2)
  const float n = shifted - to_integer;
  const float r =
      (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts: |r| <= ln(2) / 2
  float p = 1.9875691500e-4f;                       // Cephes expf: e^r = 1 + r + r^2 p(r)
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // std::bit_cast is no function of kernels.
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, p) +
                                       (__builtin_bit_cast(std::uint32_t, shifted) << 23));
}
inline double exponential(double x) { return std::exp(x); }

/// The argument of the sigmoid in gelu(x) = x * sigmoid(gelu_argument(x)), the tanh form of GELU.
/// Source:  Hendrycks and Gimpel, Gaussian Error Linear Units, 2016, section 2.
template <class Real>
ZERO_HOST_DEVICE Real gelu_argument(Real x) {
  return Real(1.5957691216057308) * (x + Real(0.044715) * x * x * x);
}
template <class Real>
ZERO_HOST_DEVICE Real gelu(Real x) {
  return x / (Real(1) + exponential(-gelu_argument(x)));
}
/// The derivative of gelu.
template <class Real>
ZERO_HOST_DEVICE Real gelu_slope(Real x) {
  const Real sigmoid = Real(1) / (Real(1) + exponential(-gelu_argument(x)));
  const Real inner = Real(1.5957691216057308) * (Real(1) + Real(3 * 0.044715) * x * x);
  return sigmoid + x * sigmoid * (Real(1) - sigmoid) * inner;
}

/// row[0 .. n) = softmax(row[0 .. n)); returns the log of the sum of e^row, of which it is the
/// gradient.
template <class Real>
Real softmax(Real* row, Size n) {
  Real largest = row[0];
  for (Size i = 1; i < n; ++i) largest = std::max(largest, row[i]);
  for (Size i = 0; i < n; ++i) row[i] = exponential(row[i] - largest);
  const Real sum = sum_of<Real>(n, [=](Size i) { return row[i]; });
  const Real inverse = Real(1) / sum;
  for (Size i = 0; i < n; ++i) row[i] *= inverse;
  return largest + std::log(sum);
}

}  // namespace gpt
