// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What does this machine have for ranks that are threads? Multiplications and additions a second,
// memory bandwidth, and how much of its speed a rank loses while it also copies. Each number is
// that of one rank while all work at once.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

/// Independent sums that stay in registers: 2 operations each.
[[gnu::noinline]] float multiply_add(std::size_t rounds) {
  constexpr std::size_t lanes = 64;
  float sums[lanes] = {};
  for (std::size_t i = 0; i < lanes; ++i) sums[i] = static_cast<float>(i);
  for (std::size_t k = 0; k < rounds; ++k) {
    for (std::size_t i = 0; i < lanes; ++i) sums[i] = sums[i] * 0.999F + 0.5F;
  }
  float all = 0;
  for (const float sum : sums) all += sum;
  return all;
}
constexpr std::size_t rounds = 20'000;
constexpr double operations = 2.0 * 64 * static_cast<double>(rounds);

/// Runs f(rank) on as many threads, all at once; the time of the slowest.
template <class F>
double seconds_of_all(std::size_t ranks, F f) {
  std::barrier begin(static_cast<std::ptrdiff_t>(ranks));
  std::vector<double> seconds(ranks);
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        begin.arrive_and_wait();
        const auto start = Clock::now();
        f(r);
        seconds[r] = std::chrono::duration<double>(Clock::now() - start).count();
      });
    }
  }
  return *std::max_element(seconds.begin(), seconds.end());
}

void compute_rate(benchmark::State& state) {
  const auto ranks = static_cast<std::size_t>(state.range(0));
  double best = 1e9;
  for (auto _ : state) {
    const double seconds =
        seconds_of_all(ranks, [](std::size_t) { benchmark::DoNotOptimize(multiply_add(rounds)); });
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
  }
  state.counters["Gflop/s"] = operations / best * 1e-9;
}

/// Bytes that are read and written, by memcpy.
void memory_rate(benchmark::State& state) {
  const auto ranks = static_cast<std::size_t>(state.range(0));
  constexpr std::size_t bytes = std::size_t{1} << 25;
  std::vector<std::vector<std::byte>> from(ranks, std::vector<std::byte>(bytes)), to = from;
  double best = 1e9;
  for (auto _ : state) {
    const double seconds = seconds_of_all(ranks, [&](std::size_t r) {
      std::memcpy(to[r].data(), from[r].data(), bytes);
      benchmark::ClobberMemory();
    });
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
  }
  state.counters["GB/s"] = 2.0 * static_cast<double>(bytes) / best * 1e-9;
}

void contention(benchmark::State& state) {
  const auto ranks = static_cast<std::size_t>(state.range(0));
  const auto work = [](std::size_t) { benchmark::DoNotOptimize(multiply_add(300 * rounds)); };
  constexpr std::size_t bytes = std::size_t{1} << 23;
  double alone = 0, beside = 0;
  for (auto _ : state) {
    alone += seconds_of_all(ranks, work);
    std::atomic<bool> over{false};
    std::vector<std::jthread> copies;
    for (std::size_t r = 0; r < ranks; ++r) {
      copies.emplace_back([&] {
        std::vector<std::byte> from(bytes), to(bytes);
        while (!over) {
          std::memcpy(to.data(), from.data(), bytes);
          benchmark::ClobberMemory();
        }
      });
    }
    const double seconds = seconds_of_all(ranks, work);
    over = true;
    state.SetIterationTime(seconds);
    beside += seconds;
  }
  state.counters["lost"] = std::max(0.0, 1 - alone / beside);
}

void ranks(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("ranks")->Arg(2)->Arg(4)->UseManualTime();
}
BENCHMARK(compute_rate)->Apply(ranks);
BENCHMARK(memory_rate)->Apply(ranks);
BENCHMARK(contention)->Apply(ranks);

}  // namespace
