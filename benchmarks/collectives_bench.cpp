// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How near do collectives of threads come to the memory that they move?
//
// `bytes` is the whole (gathered) buffer of a rank. Each iteration times the collective and, right
// after it, its limit on as many threads: memcpy of as many bytes for all_gather, a plain loop
// that sums as many arrays for reduce_scatter, both for all_reduce. `ratio` is the median over the
// iterations of limit / collective, `best` compares the fastest of each. A barrier has no limit.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>
#include <zero/comm/thread_communicator.hpp>

namespace {

using Comm = zero::ThreadCommunicator;
using Clock = std::chrono::steady_clock;

void sum(float* __restrict out, const float* a, std::size_t count, std::size_t ranks) {
  const float* b = a + count;
  const float* c = b + count;
  const float* d = c + count;
  if (ranks == 2) {
    for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
  } else {
    for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i] + c[i] + d[i];
  }
}

/// The buffers of one rank; `count` is its part of `whole`.
struct Rank {
  Rank(const Comm& communicator, std::size_t bytes)
      : comm(communicator), count(bytes / sizeof(float) / comm.size()) {
    whole.resize(count * comm.size(), 1);
    own.resize(count * comm.size(), 1);
    part.resize(count, 1);
  }

  Comm comm;
  std::size_t count;
  std::vector<float> whole;
  std::vector<float> own;  // never seen by peers: for the limits
  std::vector<float> part;
};

struct AllGather {
  static void collective(Rank& r) { r.comm.all_gather(r.part.data(), r.whole.data(), r.count); }
  static void limit(Rank& r) {
    std::memcpy(r.whole.data(), r.own.data(), r.own.size() * sizeof(float));
  }
};

struct ReduceScatter {
  static void collective(Rank& r) { r.comm.reduce_scatter(r.whole.data(), r.part.data(), r.count); }
  static void limit(Rank& r) { sum(r.part.data(), r.own.data(), r.count, r.comm.size()); }
};

struct AllReduce {
  static void collective(Rank& r) {
    r.comm.all_reduce(r.whole.data(), r.whole.size(), {}, zero::Reduction::average);
  }
  static void limit(Rank& r) {
    sum(r.part.data(), r.own.data(), r.count, r.comm.size());
    std::memcpy(r.own.data() + r.count, r.whole.data() + r.count,
                (r.own.size() - r.count) * sizeof(float));
  }
};

struct Barrier {
  static void collective(Rank& r) { r.comm.barrier(); }
  static void limit(Rank&) {}
};

template <class F>
double seconds(const Comm& comm, std::size_t repeats, F f) {
  comm.barrier();
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < repeats; ++i) {
    f();
    benchmark::ClobberMemory();
  }
  comm.barrier();
  return std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(repeats);
}

template <class Kind>
void run(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const auto comms = Comm::make(static_cast<std::size_t>(state.range(1)));
  const std::size_t repeats =
      std::max<std::size_t>(1, (1 << 18) / std::max<std::size_t>(bytes, 64));
  struct Times {
    double collective, limit;
  };
  const auto once = [&](Rank& rank) {
    const double collective = seconds(rank.comm, repeats, [&] { Kind::collective(rank); });
    return Times{collective, seconds(rank.comm, repeats, [&] { Kind::limit(rank); })};
  };
  std::vector<std::jthread> others;
  for (std::size_t r = 1; r < comms.size(); ++r) {
    others.emplace_back([&, r] {
      Rank rank(comms[r], bytes);
      for (std::uint64_t more = 1;;) {
        rank.comm.broadcast(&more, 1, 0);
        if (more == 0) return;
        once(rank);
      }
    });
  }
  Rank rank(comms[0], bytes);
  std::vector<double> ratios;
  Times best = {1e9, 1e9};
  std::uint64_t more = 1;
  for ([[maybe_unused]] auto _ : state) {
    rank.comm.broadcast(&more, 1, 0);
    const Times times = once(rank);
    state.SetIterationTime(times.collective);
    ratios.push_back(times.limit / times.collective);
    best = {std::min(best.collective, times.collective), std::min(best.limit, times.limit)};
  }
  rank.comm.broadcast(&(more = 0), 1, 0);
  std::sort(ratios.begin(), ratios.end());
  state.counters["best_us"] = best.collective * 1e6;
  if (bytes == 0) return;
  state.counters["ratio"] = ratios[ratios.size() / 2];
  state.counters["best"] = best.limit / best.collective;
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t ranks : {2, 4}) {
    for (const std::int64_t kib : {4, 64, 1024, 16 * 1024, 64 * 1024}) {
      benchmark->Args({kib * 1024, ranks});
    }
  }
  benchmark->ArgNames({"bytes", "ranks"})->UseManualTime()->Unit(benchmark::kMicrosecond);
}

}  // namespace

BENCHMARK(run<AllGather>)->Name("all_gather")->Apply(sizes);
BENCHMARK(run<ReduceScatter>)->Name("reduce_scatter")->Apply(sizes);
BENCHMARK(run<AllReduce>)->Name("all_reduce")->Apply(sizes);
BENCHMARK(run<Barrier>)
    ->Name("barrier")
    ->Args({0, 2})
    ->Args({0, 4})
    ->ArgNames({"bytes", "ranks"})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_MAIN();
