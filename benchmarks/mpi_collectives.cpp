// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How near do collectives over MPI come to MPI's own? Each iteration times the collective, and
// right after it MPI's with its wait. `best_ratio` compares the fastest of each. All processes run
// the same number of iterations. Part of zero-bench: MPI has begun.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>
#include <zero/mpi.hpp>

namespace {

using Clock = std::chrono::steady_clock;

struct Buffers {
  std::vector<float> part, whole;
  int count() const { return static_cast<int>(part.size()); }
};

struct AllGather {
  static void collective(const zero::MpiCommunicator& comm, Buffers& b) {
    comm.all_gather(b.part.data(), b.whole.data(), b.part.size());
  }
  static void plain(MPI_Comm comm, Buffers& b, MPI_Request* request) {
    MPI_Iallgather(b.part.data(), b.count(), MPI_FLOAT, b.whole.data(), b.count(), MPI_FLOAT, comm,
                   request);
  }
};
struct ReduceScatter {
  static void collective(const zero::MpiCommunicator& comm, Buffers& b) {
    comm.reduce_scatter(b.whole.data(), b.part.data(), b.part.size());
  }
  static void plain(MPI_Comm comm, Buffers& b, MPI_Request* request) {
    MPI_Ireduce_scatter_block(b.whole.data(), b.part.data(), b.count(), MPI_FLOAT, MPI_SUM, comm,
                              request);
  }
};
struct AllReduce {
  static void collective(const zero::MpiCommunicator& comm, Buffers& b) {
    comm.all_reduce(b.whole.data(), b.whole.size());
  }
  static void plain(MPI_Comm comm, Buffers& b, MPI_Request* request) {
    MPI_Iallreduce(MPI_IN_PLACE, b.whole.data(), static_cast<int>(b.whole.size()), MPI_FLOAT,
                   MPI_SUM, comm, request);
  }
};

template <class F>
double seconds(F f) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

template <class Kind>
void run(benchmark::State& state) {
  const zero::MpiCommunicator comm(MPI_COMM_WORLD);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::size_t count = bytes / sizeof(float) / comm.size();
  Buffers buffers{std::vector<float>(count), std::vector<float>(count * comm.size())};
  double best = 1e9, best_plain = 1e9;
  for (auto _ : state) {
    const double time = seconds([&] { Kind::collective(comm, buffers); });
    state.SetIterationTime(time);
    best = std::min(best, time);
    best_plain = std::min(best_plain, seconds([&] {
                            MPI_Request request = MPI_REQUEST_NULL;
                            Kind::plain(MPI_COMM_WORLD, buffers, &request);
                            MPI_Wait(&request, MPI_STATUS_IGNORE);
                          }));
  }
  state.counters["best_us"] = best * 1e6;
  state.counters["best_ratio"] = best_plain / best;
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("bytes")->UseManualTime();
  benchmark->Arg(1 << 12)->Arg(1 << 20)->Arg(1 << 24)->Iterations(20);
}
BENCHMARK(run<AllGather>)->Name("mpi_all_gather")->Apply(sizes);
BENCHMARK(run<ReduceScatter>)->Name("mpi_reduce_scatter")->Apply(sizes);
BENCHMARK(run<AllReduce>)->Name("mpi_all_reduce")->Apply(sizes);

}  // namespace
