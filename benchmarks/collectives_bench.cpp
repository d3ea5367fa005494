// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How near do collectives of threads come to the memory that they move?
//
// `bytes` is the whole (gathered) buffer of a rank. Each iteration times the collective, a small
// one several times in a row, and, right after it, its limit on as many threads: memcpy of as many
// bytes for all_gather, a plain loop that sums as many arrays for reduce_scatter, both for
// all_reduce. `ratio` is the median over the iterations of limit / collective, `best_ratio`
// compares the fastest of each, `thread_ratio` is the median by the clock of the thread, which
// other programs stretch least. `median_us` and `best_us` are of one collective, the column Time is
// of all in a row. A barrier has no limit. Elements are of fp32, or where the name says so of bf16,
// whose sums are rounded once.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>
#include <zero/comm/thread_communicator.hpp>

namespace {

using Comm = zero::ThreadCommunicator;
using Clock = std::chrono::steady_clock;

template <class T>
void sum(T* __restrict out, const T* a, std::size_t count, std::size_t ranks) {
  const T* b = a + count;
  const T* c = b + count;
  const T* d = c + count;
  if (ranks == 2) {
    for (std::size_t i = 0; i < count; ++i) out[i] = T(float(a[i]) + float(b[i]));
  } else {
    for (std::size_t i = 0; i < count; ++i)
      out[i] = T(float(a[i]) + float(b[i]) + float(c[i]) + float(d[i]));
  }
}

/// The buffers of one rank; `count` is its part of `whole`.
template <class T>
struct Rank {
  Rank(const Comm& communicator, std::size_t bytes)
      : comm(communicator), count(bytes / sizeof(T) / comm.size()) {
    whole.resize(count * comm.size(), T(1.0F));
    own.resize(count * comm.size(), T(1.0F));
    part.resize(count, T(1.0F));
  }

  Comm comm;
  std::size_t count;
  std::vector<T> whole;
  std::vector<T> own;  // never seen by peers: for the limits
  std::vector<T> part;
};

struct AllGather {
  template <class T>
  static void collective(Rank<T>& r) {
    r.comm.all_gather(r.part.data(), r.whole.data(), r.count);
  }
  template <class T>
  static void limit(Rank<T>& r) {
    std::memcpy(r.whole.data(), r.own.data(), r.own.size() * sizeof(T));
  }
};

struct ReduceScatter {
  template <class T>
  static void collective(Rank<T>& r) {
    r.comm.reduce_scatter(r.whole.data(), r.part.data(), r.count);
  }
  template <class T>
  static void limit(Rank<T>& r) {
    sum(r.part.data(), r.own.data(), r.count, r.comm.size());
  }
};

struct AllReduce {
  template <class T>
  static void collective(Rank<T>& r) {
    r.comm.all_reduce(r.whole.data(), r.whole.size(), {}, zero::Reduction::average);
  }
  template <class T>
  static void limit(Rank<T>& r) {
    sum(r.part.data(), r.own.data(), r.count, r.comm.size());
    std::memcpy(r.own.data() + r.count, r.whole.data() + r.count,
                (r.own.size() - r.count) * sizeof(T));
  }
};

struct Barrier {
  static void collective(Rank<float>& r) { r.comm.barrier(); }
  static void limit(Rank<float>&) {}
};

/// Seconds by the clock of the wall and by that of the thread.
struct Seconds {
  double wall = 0;
  double thread = 0;
};

Seconds now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return {std::chrono::duration<double>(Clock::now().time_since_epoch()).count(),
          static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9};
}

template <class F>
Seconds seconds(const Comm& comm, std::size_t repeats, F f) {
  comm.barrier();
  const Seconds begin = now();
  for (std::size_t i = 0; i < repeats; ++i) {
    f();
    benchmark::ClobberMemory();
  }
  comm.barrier();
  const Seconds end = now();
  const auto n = static_cast<double>(repeats);
  return {(end.wall - begin.wall) / n, (end.thread - begin.thread) / n};
}

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Kind, class T>
void run(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const auto comms = Comm::make(static_cast<std::size_t>(state.range(1)));
  const std::size_t repeats =
      std::max<std::size_t>(1, (1 << 18) / std::max<std::size_t>(bytes, 64));
  struct Times {
    Seconds collective, limit;
  };
  const auto once = [&](Rank<T>& rank) {
    const Seconds collective = seconds(rank.comm, repeats, [&] { Kind::collective(rank); });
    return Times{collective, seconds(rank.comm, repeats, [&] { Kind::limit(rank); })};
  };
  std::vector<std::jthread> others;
  for (std::size_t r = 1; r < comms.size(); ++r) {
    others.emplace_back([&, r] {
      Rank<T> rank(comms[r], bytes);
      for (std::uint64_t more = 1;;) {
        rank.comm.broadcast(&more, 1, 0);
        if (more == 0) return;
        once(rank);
      }
    });
  }
  Rank<T> rank(comms[0], bytes);
  std::vector<double> ratios;
  std::vector<double> thread_ratios;
  std::vector<double> collectives;
  double best_collective = 1e9;
  double best_limit = 1e9;
  std::uint64_t more = 1;
  for ([[maybe_unused]] auto _ : state) {
    rank.comm.broadcast(&more, 1, 0);
    const Times times = once(rank);
    state.SetIterationTime(times.collective.wall * static_cast<double>(repeats));
    ratios.push_back(times.limit.wall / times.collective.wall);
    collectives.push_back(times.collective.wall);
    thread_ratios.push_back(times.limit.thread / times.collective.thread);
    best_collective = std::min(best_collective, times.collective.wall);
    best_limit = std::min(best_limit, times.limit.wall);
  }
  more = 0;
  rank.comm.broadcast(&more, 1, 0);
  state.counters["best_us"] = best_collective * 1e6;
  state.counters["median_us"] = median(collectives) * 1e6;
  if (bytes == 0) return;
  state.counters["ratio"] = median(ratios);
  state.counters["best_ratio"] = best_limit / best_collective;
  state.counters["thread_ratio"] = median(thread_ratios);
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

BENCHMARK(run<AllGather, float>)->Name("all_gather")->Apply(sizes);
BENCHMARK(run<ReduceScatter, float>)->Name("reduce_scatter")->Apply(sizes);
BENCHMARK(run<AllReduce, float>)->Name("all_reduce")->Apply(sizes);
BENCHMARK(run<AllGather, zero::bf16>)->Name("all_gather_bf16")->Apply(sizes);
BENCHMARK(run<ReduceScatter, zero::bf16>)->Name("reduce_scatter_bf16")->Apply(sizes);
BENCHMARK(run<AllReduce, zero::bf16>)->Name("all_reduce_bf16")->Apply(sizes);
BENCHMARK(run<Barrier, float>)
    ->Name("barrier")
    ->Args({0, 2})
    ->Args({0, 4})
    ->ArgNames({"bytes", "ranks"})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
