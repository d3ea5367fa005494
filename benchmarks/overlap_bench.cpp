// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Is communication hidden behind compute? A step of Zero3 whose transport takes as long as the
// compute of a unit, with 0, 1 and 2 units gathered ahead. The limit is the same step with a
// transport that takes no time, measured in turn with it.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>
#include <zero/zero.hpp>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr std::size_t units = 8;
constexpr microseconds unit_time{1500};  // of a forward; a backward takes twice as long

/// One rank whose collectives of a stream take some time, but no processor.
class Delaying : public zero::SelfCommunicator {
 public:
  explicit Delaying(microseconds delay) : delay_(delay) {}
  Delaying split(int color, int key) const {
    return {zero::SelfCommunicator::split(color, key), delay_};
  }
  using SelfCommunicator::all_gather;
  using SelfCommunicator::reduce_scatter;
  template <zero::Element T>
  void all_gather(Stream& stream, const T* in, T* out, std::size_t count, zero::Label label) const {
    late(stream);
    SelfCommunicator::all_gather(stream, in, out, count, label);
  }
  template <zero::Element T>
  void reduce_scatter(Stream& stream, const T* in, T* out, std::size_t count,
                      zero::Accumulate accumulate, zero::Label label,
                      zero::Reduction reduction) const {
    late(stream);
    SelfCommunicator::reduce_scatter(stream, in, out, count, accumulate, label, reduction);
  }

 private:
  Delaying(zero::SelfCommunicator comm, microseconds delay)
      : SelfCommunicator(std::move(comm)), delay_(delay) {}
  void late(Stream& stream) const {
    if (delay_.count() == 0) return;
    stream.enqueue("delay", [delay = delay_] { std::this_thread::sleep_for(delay); });
  }

  microseconds delay_;
};

template <class T>
struct Layer {
  zero::Tensor<T> weight;
  static constexpr auto tensors(int n) {
    return zero::tensors(zero::tensor("weight", &Layer::weight, {n}));
  }
};

void compute(microseconds time) {
  const auto end = Clock::now() + time;
  while (Clock::now() < end) benchmark::ClobberMemory();
}

template <std::size_t depth>
using Ahead = zero::Stage<
    zero::ShardOptimizer<>, zero::ShardGrads<>,
    zero::ShardParams<zero::ParamsOptions{.forward_prefetch = depth, .backward_prefetch = depth}>>;

template <class Module>
double step_seconds(Module& module) {
  const auto begin = Clock::now();
  auto step = module.begin_step();
  for (auto unit : step.forward()) {
    benchmark::DoNotOptimize(unit);
    compute(unit_time);
  }
  for (auto unit : step.backward()) {
    benchmark::DoNotOptimize(unit);
    compute(2 * unit_time);
  }
  (void)step.finish();
  module.synchronize();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void overlap(benchmark::State& state) {
  // A value, so that the module is compiled once.
  constexpr zero::StageValue stages[] = {zero::stage_value<Ahead<0>>, zero::stage_value<Ahead<1>>,
                                         zero::stage_value<Ahead<2>>};
  const zero::StageValue& stage = stages[state.range(0)];
  zero::ModuleOptions options;
  options.streams = zero::StreamMode::asynchronous;
  const auto make = [&](microseconds delay) {
    return zero::shard(stage, zero::model(zero::units<Layer>("layer", units, 8)),
                       zero::mesh(Delaying(delay)), zero::Sgd{}, options);
  };
  auto late = make(unit_time), free = make(microseconds{0});
  double best = 1e9, best_free = 1e9;
  for (auto _ : state) {
    const double seconds = step_seconds(late);
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
    best_free = std::min(best_free, step_seconds(free));
  }
  // Nothing but the first gather and the last reduction has to wait.
  const double exposed = 2 * std::chrono::duration<double>(unit_time).count();
  state.counters["step_ms"] = best * 1e3;
  state.counters["limit_ms"] = best_free * 1e3;
  state.counters["ratio"] = best_free / best;
  state.counters["unavoidable_ms"] = exposed * 1e3;
}

BENCHMARK(overlap)->ArgName("prefetch")->DenseRange(0, 2)->UseManualTime();

}  // namespace
