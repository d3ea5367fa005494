// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What does a schedule cost the host? Goals: at most 300 ns a step to build and verify, at most
// 20 ns a step to dispatch with empty operations.
//
// `ns_per_step` is the time of one step; `ratio` is that of the limit over it, measured in turn:
// a copy of the steps for what makes or reads a schedule, a loop that calls the same operations
// without waits and events for what dispatches one.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>
#include <zero/policy/make_schedule.hpp>
#include <zero/policy/stages.hpp>
#include <zero/schedule/execute.hpp>
#include <zero/schedule/hash.hpp>
#include <zero/schedule/verify.hpp>

namespace {
using namespace zero;
using Clock = std::chrono::steady_clock;

template <class F>
double seconds(F& f) {
  const auto begin = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
/// Times `subject` and `limit` in turn, and compares the fastest of each.
template <class F, class G>
void compare(benchmark::State& state, std::size_t steps, F subject, G limit) {
  double best = 1e30, best_limit = 1e30;
  for (auto _ : state) {
    const double time = seconds(subject);
    state.SetIterationTime(time);
    best = std::min(best, time);
    best_limit = std::min(best_limit, seconds(limit));
  }
  state.counters["steps"] = static_cast<double>(steps);
  state.counters["ns_per_step"] = best * 1e9 / static_cast<double>(steps);
  state.counters["ratio"] = best_limit / best;
}

/// The operations of a device that has nothing to do; the compiler must keep the calls.
struct Empty {
  std::uint64_t sum = 0;
  void wait(StreamId, std::uint32_t index) { keep(index); }
  void record(StreamId, std::uint32_t index) { keep(index); }
  void run(const Step& step) { keep(step.subject); }
  void pass(const Step& step) { keep(step.subject); }
  void keep(std::uint64_t value) {
    sum += value;
    benchmark::DoNotOptimize(sum);
  }
};

struct Made {
  Made(std::size_t units, std::size_t micro_steps) : model(units) {
    fill_training(program, units, micro_steps);
    maker.make(schedule, model, program);
    copy = schedule.steps;
  }
  void copy_steps() {
    std::copy(schedule.steps.begin(), schedule.steps.end(), copy.begin());
    benchmark::DoNotOptimize(copy.data());
    benchmark::ClobberMemory();
  }
  ModelShape model;
  Program program;
  ScheduleMaker maker{stage_value<Zero3>};
  Verifier verifier;
  Schedule schedule;
  List<Step> copy;
};
Made made(const benchmark::State& state) {
  return {static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1))};
}

template <class F>
void read(benchmark::State& state, F f) {
  Made m = made(state);
  compare(
      state, m.schedule.steps.size(), [&] { benchmark::DoNotOptimize(f(m)); },
      [&] { m.copy_steps(); });
}
void build_and_verify(benchmark::State& state) {
  read(state, [](Made& m) {
    m.maker.make(m.schedule, m.model, m.program);
    return m.verifier.verify(m.schedule).rule;
  });
}
void build(benchmark::State& state) {
  read(state, [](Made& m) {
    m.maker.make(m.schedule, m.model, m.program);
    return m.schedule.steps.size();
  });
}
void verify(benchmark::State& state) {
  read(state, [](Made& m) { return m.verifier.verify(m.schedule).rule; });
}
void hash(benchmark::State& state) {
  read(state, [](Made& m) { return zero::hash(m.schedule); });
}

template <class F>
void dispatch(benchmark::State& state, F f) {
  Made m = made(state);
  Empty empty;
  Executor executor(m.schedule, empty);
  compare(
      state, m.schedule.steps.size(), [&] { f(m, executor); },
      [&] {
        for (const Step& step : m.schedule.steps) empty.run(step);
      });
}
void dispatch_run(benchmark::State& state) {
  dispatch(state, [](Made&, Executor<Empty>& executor) { executor.run(); });
}
void dispatch_enter_leave(benchmark::State& state) {
  dispatch(state, [](Made& m, Executor<Empty>& executor) {
    for (const Compute& compute : m.program.computes) {
      executor.enter(compute.op, compute.unit);
      executor.leave();
    }
    executor.finish();
  });
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"units", "micro_steps"});
  for (const int units : {12, 96, 512, 4096}) b->Args({units, 1});
  b->Args({96, 4})->UseManualTime();
}
BENCHMARK(build_and_verify)->Apply(sizes);
BENCHMARK(build)->Apply(sizes);
BENCHMARK(verify)->Apply(sizes);
BENCHMARK(hash)->Apply(sizes);
BENCHMARK(dispatch_run)->Apply(sizes);
BENCHMARK(dispatch_enter_leave)->Apply(sizes);

}  // namespace
