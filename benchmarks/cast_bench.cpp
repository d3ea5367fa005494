// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How near does the conversion of an array come to the speed of memory? Goal: at least 0.9 of a
// loop that changes as many bytes in place, and 0.75 of a triad, both measured in turn with it.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <vector>
#include <zero/base/element.hpp>
#include <zero/optim/cast.hpp>

#include "limits.hpp"

namespace {

constexpr std::size_t elements = std::size_t{1} << 23;

template <class From, class To>
void cast(benchmark::State& state) {
  const std::vector<From> from(elements, From(1.5F));
  std::vector<To> to(elements);
  const std::size_t bytes = elements * (sizeof(From) + sizeof(To));
  limits::compare(state, bytes, bytes, [&] { zero::cast(from.data(), to.data(), elements); });
}

BENCHMARK(cast<float, zero::bf16>)->UseManualTime();
BENCHMARK(cast<zero::bf16, float>)->UseManualTime();
BENCHMARK(cast<float, zero::fp16>)->UseManualTime();
BENCHMARK(cast<zero::fp16, float>)->UseManualTime();

}  // namespace
