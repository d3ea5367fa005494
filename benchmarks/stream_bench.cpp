// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What does one step of a schedule (wait, enqueue, record) cost the host in each stream mode, with
// work that does nothing? Reported also in atomic exchanges, measured in the same run: the least
// that handing work to another thread can cost is two. Goal: an inline step within 10.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <zero/device/host_stream.hpp>

namespace {

using Clock = std::chrono::steady_clock;
using zero::StreamMode;

constexpr std::size_t batch = 256;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double exchange_seconds() {
  static const double seconds = [] {
    std::atomic<std::uint64_t> word{0};
    double best = 1;
    for (int repeat = 0; repeat < 20; ++repeat) {
      const auto begin = Clock::now();
      for (std::uint64_t i = 0; i < 10'000; ++i) benchmark::DoNotOptimize(word.exchange(i));
      best = std::min(best, seconds_since(begin) / 10'000);
    }
    return best;
  }();
  return seconds;
}

/// Two streams that hand over to each other, as gather and compute do.
template <StreamMode mode>
class Steps {
 public:
  void issue() {
    for (std::size_t i = 0; i < batch; i += 2) {
      step(a_, b_done_[i], a_done_[i]);
      step(b_, a_done_[i], b_done_[(i + 2) % batch]);
    }
  }
  void synchronize() { device_.synchronize(); }

 private:
  void step(zero::HostStream& stream, zero::HostEvent& before, zero::HostEvent& after) {
    stream.wait(before);
    stream.enqueue("step", [this] { benchmark::DoNotOptimize(this); });
    stream.record(after);
  }

  zero::HostDevice device_{{.mode = mode}};
  zero::HostStream& a_ = device_.make_stream("a");
  zero::HostStream& b_ = device_.make_stream("b");
  std::array<zero::HostEvent, batch> a_done_;
  std::array<zero::HostEvent, batch> b_done_;
};

/// Measures `timed` again and again, with `untimed` in between; reports the best, as others may use
/// the processor too.
template <class Timed, class Untimed>
void measure(benchmark::State& state, std::size_t steps, Timed timed, Untimed untimed) {
  double best = 1;
  for (auto _ : state) {
    const auto begin = Clock::now();
    timed();
    const double seconds = seconds_since(begin);
    untimed();
    state.SetIterationTime(seconds);
    best = std::min(best, seconds / static_cast<double>(steps));
  }
  state.counters["best_ns"] = best * 1e9;
  state.counters["best_exchanges"] = best / exchange_seconds();
}

/// The time until the host has issued the steps.
template <StreamMode mode>
void issue(benchmark::State& state) {
  Steps<mode> steps;
  measure(
      state, batch, [&] { steps.issue(); }, [&] { steps.synchronize(); });
}

/// The time until the steps have run.
template <StreamMode mode>
void run(benchmark::State& state) {
  Steps<mode> steps;
  const auto all = [&] {
    steps.issue();
    steps.synchronize();
  };
  measure(state, batch, all, [] {});
}

/// The time from one enqueue to the return of synchronize.
template <StreamMode mode>
void round_trip(benchmark::State& state) {
  zero::HostDevice device({.mode = mode});
  auto& stream = device.make_stream("a");
  const auto all = [&] {
    stream.enqueue("step", [] {});
    stream.synchronize();
  };
  measure(state, 1, all, [] {});
}

BENCHMARK(issue<StreamMode::inline_run>)->UseManualTime();
BENCHMARK(issue<StreamMode::asynchronous>)->UseManualTime();
BENCHMARK(issue<StreamMode::shuffled>)->UseManualTime();
BENCHMARK(run<StreamMode::inline_run>)->UseManualTime();
BENCHMARK(run<StreamMode::asynchronous>)->UseManualTime();
BENCHMARK(run<StreamMode::shuffled>)->UseManualTime();
BENCHMARK(round_trip<StreamMode::inline_run>)->UseManualTime();
BENCHMARK(round_trip<StreamMode::asynchronous>)->UseManualTime();
BENCHMARK(round_trip<StreamMode::shuffled>)->UseManualTime();

}  // namespace
