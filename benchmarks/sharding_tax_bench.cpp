// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What does sharding cost a step that is mostly computing? The GPT of examples/gpt on two ranks:
// the median step of Zero3 over that of Ddp (`tax`), taken in turns in the same run, where Ddp
// keeps everything whole and only sums gradients.

#include <benchmark/benchmark.h>
#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "gpt/trainer.hpp"
#include "tax_model.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

template <class Trainer>
double timed_step(Trainer& trainer, gpt::Size number) {
  const Clock::time_point begin = Clock::now();
  benchmark::DoNotOptimize(trainer.step(number));
  trainer.module().synchronize();
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void sharding_tax(benchmark::State& state, zero::StreamMode streams) {
  openblas_set_num_threads(1);
  gpt::Options options;
  options.ranks = 2;
  options.layers = tax_model.layers;
  options.width = tax_model.width;
  options.heads = tax_model.heads;
  options.context = tax_model.context;
  options.sequences = tax_model.sequences;
  options.streams = streams;
  std::string text;
  for (int i = 0; i < 4000; ++i)
    text += "the rank " + std::to_string(i * 7919 % 1000) + " holds a shard\n";
  std::vector<double> whole, sharded;
  for (auto _ : state) {
    zero::run_threads(2, [&](zero::ThreadCommunicator& comm) {
      gpt::Trainer<zero::Ddp> ddp(options, text, comm, gpt::module_options(options));
      gpt::Trainer<zero::Zero3> zero3(options, text, comm, gpt::module_options(options));
      for (gpt::Size number = 0; number < 8; ++number) {
        const double a = timed_step(ddp, number), b = timed_step(zero3, number);
        if (comm.rank() != 0 || number == 0) continue;  // the first step warms up
        whole.push_back(a);
        sharded.push_back(b);
      }
    });
  }
  state.counters["ddp_ms"] = median(whole);
  state.counters["zero3_ms"] = median(sharded);
  state.counters["tax"] = median(sharded) / median(whole);
}
BENCHMARK_CAPTURE(sharding_tax, inline_streams, zero::StreamMode::inline_run)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(sharding_tax, asynchronous_streams, zero::StreamMode::asynchronous)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
