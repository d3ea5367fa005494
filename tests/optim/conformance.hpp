// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What every model of zero::Optimizer promises. Define `Models`, a std::tuple of types with a
// static make() that returns an optimizer with weight decay, and include this file.
#pragma once

#include <array>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>
#include <zero/base/element.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/optim/update.hpp>

namespace conformance {

template <class Model>
using OptimizerOf = decltype(Model::make());

/// Where the learning rate and weight decay are set: in an optimizer, or in what it wraps.
template <class O>
auto& settings(O& optimizer) {
  if constexpr (requires { optimizer.optimizer; }) {
    return settings(optimizer.optimizer);
  } else {
    return optimizer;
  }
}

inline std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  for (const float value : values) result.push_back(std::bit_cast<std::uint32_t>(value));
  return result;
}

/// The arrays of an update, filled with numbers of all magnitudes and signs.
template <class O>
struct Arrays {
  explicit Arrays(std::size_t n) : gradient(n), master(n), compute(n, zero::bf16(0.0F)) {
    for (auto& state : states) state.resize(n);
    std::uint32_t random = 1;
    const auto next = [&] {
      random = random * 1664525 + 1013904223;
      const auto fraction = static_cast<float>(random >> 9) * 0x1p-22F - 1;  // in [-1, 1)
      return std::ldexp(fraction, static_cast<int>(random >> 5 & 15) - 8);
    };
    for (std::size_t i = 0; i < n; ++i) {
      gradient[i] = next();
      master[i] = next();
      for (auto& state : states) state[i] = std::fabs(next());
    }
  }

  /// Updates elements [begin, begin + n).
  void update(const typename O::Coefficients& c, std::size_t begin, std::size_t n,
              float divisor = 3.0F, float clip = 0.7F) {
    std::array<float*, O::states + 1> pointers{};
    for (std::size_t i = 0; i < O::states; ++i) pointers[i] = states[i].data() + begin;
    zero::update<O>(c, divisor, clip, gradient.data() + begin, master.data() + begin,
                    compute.data() + begin, pointers.data(), n);
  }

  friend bool operator==(const Arrays& a, const Arrays& b) {
    bool same = bits(a.gradient) == bits(b.gradient) && bits(a.master) == bits(b.master);
    for (std::size_t i = 0; i < O::states; ++i) same &= bits(a.states[i]) == bits(b.states[i]);
    for (std::size_t i = 0; i < a.compute.size(); ++i) {
      same &= a.compute[i].bits == b.compute[i].bits;
    }
    return same;
  }

  std::vector<float> gradient, master;
  std::vector<zero::bf16> compute;
  std::array<std::vector<float>, O::states> states;
};

/// The weights after one update from the weights `start` and no state, without clipping.
template <class O>
std::vector<float> after(const O& optimizer, std::vector<float> start, std::vector<float> gradient,
                         bool decay, std::int64_t step = 0) {
  std::array<std::vector<float>, O::states> states;
  std::array<float*, O::states + 1> pointers{};
  for (std::size_t i = 0; i < O::states; ++i) {
    states[i].assign(start.size(), 0.0F);
    pointers[i] = states[i].data();
  }
  zero::update<O, float>(optimizer.coefficients(1, step, decay), 1.0F, 1.0F, gradient.data(),
                         start.data(), nullptr, pointers.data(), start.size());
  return start;
}

}  // namespace conformance
