// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What does a module cost the host? One step of a schedule with nothing to compute or to send, the
// same with collectives of one and of two ranks, the begin and the end of a training step, and a
// view of a unit's tensors. The limit is a bare loop over the steps of the same schedule.

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>
#include <zero/zero.hpp>

namespace {

using Clock = std::chrono::steady_clock;

template <class T>
struct Layer {
  zero::Tensor<T> weight, bias;
  static constexpr auto tensors(int n) {
    return zero::tensors(zero::tensor("weight", &Layer::weight, {n}),
                         zero::tensor("bias", &Layer::bias, {n}, zero::no_decay));
  }
};
auto layers(std::size_t count) { return zero::model(zero::units<Layer>("layer", count, 1)); }

/// One rank that sends nothing: what is left is the module.
struct Silent {
  using Stream = zero::HostStream;
  std::size_t rank() const { return 0; }
  std::size_t size() const { return 1; }
  zero::Traffic sent() const { return {}; }
  Silent split(int, int) const { return {}; }
  void abort(std::string_view) const noexcept {}
  template <class... Arguments>
  void all_gather(Arguments&&...) const {}
  template <class... Arguments>
  void reduce_scatter(Arguments&&...) const {}
  template <class... Arguments>
  void all_reduce(Arguments&&...) const {}
  template <class... Arguments>
  void broadcast(Arguments&&...) const {}
  template <class... Arguments>
  void barrier(Arguments&&...) const {}
};

template <class Module>
void train(Module& module) {
  auto step = module.begin_step();
  for (auto unit : step.forward()) benchmark::DoNotOptimize(unit);
  for (auto unit : step.backward()) benchmark::DoNotOptimize(unit);
  benchmark::DoNotOptimize(step.finish());
}

[[gnu::noinline]] std::size_t bare_loop(const zero::Schedule& schedule) {
  std::size_t sum = 0;
  for (const zero::Step& step : schedule.steps) {
    sum += static_cast<std::size_t>(step.op);
    for (const std::uint32_t wait : step.waits) sum += wait != zero::no_wait;
    benchmark::DoNotOptimize(sum);
  }
  return sum;
}

/// Reports the time of a schedule step and its ratio to a bare loop.
void report(benchmark::State& state, const zero::Schedule& schedule, double seconds) {
  double bare = 1;
  for (int repeat = 0; repeat < 100; ++repeat) {
    const auto begin = Clock::now();
    benchmark::DoNotOptimize(bare_loop(schedule));
    const std::chrono::duration<double> time = Clock::now() - begin;
    bare = std::min(bare, time.count());
  }
  const auto steps = static_cast<double>(schedule.steps.size());
  state.counters["steps"] = steps;
  state.counters["ns/step"] = seconds / steps * 1e9;
  state.counters["of_bare_loop"] = seconds / bare;
}

template <class StageType, class Comm>
void one_rank(benchmark::State& state) {
  Comm comm;
  auto module = zero::shard<StageType>(layers(static_cast<std::size_t>(state.range(0))),
                                       zero::mesh(comm), zero::Sgd{});
  double best = 1;
  for (auto _ : state) {
    const auto begin = Clock::now();
    train(module);
    const std::chrono::duration<double> time = Clock::now() - begin;
    state.SetIterationTime(time.count());
    best = std::min(best, time.count());
  }
  report(state, module.schedule(), best);
}

template <class StageType>
void two_ranks(benchmark::State& state) {
  constexpr std::size_t batch = 100;
  double best = 1;
  zero::Schedule schedule;
  for (auto _ : state) {
    double seconds = 0;
    zero::run_threads(2, [&](zero::ThreadCommunicator& comm) {
      auto module = zero::shard<StageType>(layers(static_cast<std::size_t>(state.range(0))), comm,
                                           zero::Sgd{});
      train(module);
      comm.barrier();
      const auto begin = Clock::now();
      for (std::size_t k = 0; k < batch; ++k) train(module);
      const std::chrono::duration<double> time = Clock::now() - begin;
      comm.barrier();
      if (comm.rank() != 0) return;
      seconds = time.count() / batch;
      schedule = module.schedule();
    });
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
  }
  report(state, schedule, best);
}

/// The parts of a training step that do not depend on how many units run.
void begin_and_finish(benchmark::State& state) {
  auto module = zero::shard<zero::Zero3>(layers(static_cast<std::size_t>(state.range(0))),
                                         zero::mesh(Silent{}), zero::Sgd{});
  double begin_best = 1, finish_best = 1, clock_best = 1;
  for (auto _ : state) {
    const auto before = Clock::now();
    auto step = module.begin_step();
    const auto begun = Clock::now();
    for (auto unit : step.forward()) benchmark::DoNotOptimize(unit);
    for (auto unit : step.backward()) benchmark::DoNotOptimize(unit);
    const auto ran = Clock::now();
    benchmark::DoNotOptimize(step.finish());
    const auto finished = Clock::now();
    const auto empty = Clock::now() - finished;
    const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
    begin_best = std::min(begin_best, seconds(begun - before));
    finish_best = std::min(finish_best, seconds(finished - ran));
    clock_best = std::min(clock_best, seconds(empty));
    state.SetIterationTime(seconds(begun - before) + seconds(finished - ran));
  }
  state.counters["begin_ns"] = (begin_best - clock_best) * 1e9;
  state.counters["finish_ns"] = (finish_best - clock_best) * 1e9;
}

template <bool gradients>
void views(benchmark::State& state) {
  auto module = zero::shard<zero::Zero3>(layers(8), zero::mesh(Silent{}), zero::Sgd{});
  auto step = module.begin_step();
  for (auto unit : step.forward()) benchmark::DoNotOptimize(unit);
  auto unit = step.backward(7);
  for (auto _ : state) {
    if constexpr (gradients) {
      benchmark::DoNotOptimize(unit.gradients<Layer>());
    } else {
      benchmark::DoNotOptimize(unit.weights<Layer>());
    }
  }
}

}  // namespace

BENCHMARK_TEMPLATE(one_rank, zero::Ddp, Silent)->Arg(8)->Arg(64)->UseManualTime();
BENCHMARK_TEMPLATE(one_rank, zero::Zero3, Silent)->Arg(8)->Arg(64)->UseManualTime();
BENCHMARK_TEMPLATE(one_rank, zero::Zero3, zero::SelfCommunicator)->Arg(8)->Arg(64)->UseManualTime();
BENCHMARK_TEMPLATE(two_ranks, zero::Zero3)->Arg(8)->UseManualTime();
BENCHMARK(begin_and_finish)->Arg(1)->Arg(64)->UseManualTime();
BENCHMARK_TEMPLATE(views, false);
BENCHMARK_TEMPLATE(views, true);
