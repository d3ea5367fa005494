// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How near does the update of a shard come to the speed of memory? Goal: at least 0.9 of a loop
// that changes as many bytes in place, and 0.75 of a triad, both measured in turn with it.

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <vector>
#include <zero/base/element.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/sgd.hpp>
#include <zero/optim/square_norm.hpp>
#include <zero/optim/update.hpp>

#include "limits.hpp"

namespace {

constexpr std::size_t elements = std::size_t{1} << 22;

template <class O, class T>
void update(benchmark::State& state) {
  std::vector<float> gradient(elements, 1e-3F), master(elements, 1.0F);
  std::array<std::vector<float>, O::states> states;
  std::array<float*, O::states> pointers;
  for (std::size_t i = 0; i < O::states; ++i) {
    states[i].assign(elements, 1e-6F);
    pointers[i] = states[i].data();
  }
  constexpr bool is_float = std::is_same_v<T, float>;
  std::vector<T> compute(is_float ? 0 : elements);
  const auto c = O{}.coefficients(10, 10, true);
  constexpr std::size_t narrow = is_float ? 0 : sizeof(T);
  const std::size_t footprint = elements * (sizeof(float) * (2 + O::states) + narrow);
  const std::size_t moved = elements * (sizeof(float) * (3 + 2 * O::states) + narrow);
  limits::compare(state, footprint, moved, [&] {
    zero::update<O>(c, 4.0F, 0.5F, gradient.data(), master.data(),
                    is_float ? static_cast<T*>(nullptr) : compute.data(), pointers.data(),
                    elements);
  });
}

/// AdamW in which everything is bf16: no masters, and stochastic rounding.
void update_narrow(benchmark::State& state) {
  std::vector<zero::bf16> arrays[4];
  for (auto& array : arrays) array.assign(elements, zero::bf16(1e-2F));
  const zero::Array states[] = {{arrays[2].data(), elements}, {arrays[3].data(), elements}};
  const auto c = zero::AdamW{}.coefficients(10, 10, true);
  limits::compare(state, 4 * elements * sizeof(zero::bf16), 7 * elements * sizeof(zero::bf16), [&] {
    zero::update<zero::AdamW>(c, 4.0F, 0.5F,
                              {.gradient = {arrays[0].data(), elements},
                               .master = {arrays[1].data(), elements},
                               .compute = {arrays[1].data(), elements},
                               .states = states});
  });
}

void square_norm(benchmark::State& state) {
  constexpr std::size_t n = 4 * elements;  // beyond the cache, as above
  const std::vector<float> gradient(n, 1e-3F);
  limits::compare(state, n * sizeof(float), n * sizeof(float),
                  [&] { benchmark::DoNotOptimize(zero::square_norm(gradient.data(), n)); });
}

BENCHMARK(update<zero::AdamW, float>)->UseManualTime();
BENCHMARK(update<zero::AdamW, zero::bf16>)->UseManualTime();
BENCHMARK(update<zero::Sgd, float>)->UseManualTime();
BENCHMARK(update<zero::Sgd, zero::bf16>)->UseManualTime();
BENCHMARK(update_narrow)->UseManualTime();
BENCHMARK(square_norm)->UseManualTime();

}  // namespace
