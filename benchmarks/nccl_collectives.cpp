// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How near do collectives over NCCL come to NCCL's own calls? A thread for each GPU; several calls
// in a row are timed, and right after them as many of NCCL's. `best_ratio` compares the fastest of
// each. Part of zero-bench where CUDA and NCCL are; on the emulator it only runs.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <zero/cuda.hpp>

namespace {

using Clock = std::chrono::steady_clock;

void must(int error, const char* call) {
  if (error != 0) throw std::runtime_error(std::string(call) + " failed");
}

/// A rank with two communicators and its buffers on a device.
struct Rank {
  Rank(int rank, int ranks, std::size_t bytes, const ncclUniqueId (&ids)[2])
      : device({.ordinal = rank}),
        stream(device.make_stream("collectives")),
        count(bytes / sizeof(float) / static_cast<std::size_t>(ranks)),
        comm(make(rank, ranks, ids[0])) {
    must(ncclCommInitRank(&plain, ranks, ids[1], rank), "ncclCommInitRank");
    must(cudaMalloc(&part, count * sizeof(float)), "cudaMalloc");
    must(cudaMalloc(&whole, bytes), "cudaMalloc");
    must(cudaMemset(part, 0, count * sizeof(float)), "cudaMemset");
    must(cudaMemset(whole, 0, bytes), "cudaMemset");
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() {
    cudaFree(part);
    cudaFree(whole);
    ncclCommDestroy(plain);
  }
  static zero::NcclCommunicator make(int rank, int ranks, const ncclUniqueId& id) {
    must(cudaSetDevice(rank), "cudaSetDevice");
    return zero::NcclCommunicator::make(id, static_cast<std::size_t>(rank),
                                        static_cast<std::size_t>(ranks));
  }

  zero::CudaDevice device;
  zero::CudaStream& stream;
  std::size_t count;
  zero::NcclCommunicator comm;
  ncclComm_t plain = nullptr;
  float *part = nullptr, *whole = nullptr;
};

struct AllGather {
  static void collective(Rank& r) { r.comm.all_gather(r.stream, r.part, r.whole, r.count); }
  static ncclResult_t plain(Rank& r) {
    return ncclAllGather(r.part, r.whole, r.count, ncclFloat32, r.plain, r.stream.native());
  }
};
struct ReduceScatter {
  static void collective(Rank& r) { r.comm.reduce_scatter(r.stream, r.whole, r.part, r.count); }
  static ncclResult_t plain(Rank& r) {
    return ncclReduceScatter(r.whole, r.part, r.count, ncclFloat32, ncclSum, r.plain,
                             r.stream.native());
  }
};
struct AllReduce {
  static void collective(Rank& r) { r.comm.all_reduce(r.stream, r.whole, r.count * r.comm.size()); }
  static ncclResult_t plain(Rank& r) {
    return ncclAllReduce(r.whole, r.whole, r.count * r.comm.size(), ncclFloat32, ncclSum, r.plain,
                         r.stream.native());
  }
};

/// Seconds of one call, out of several in a row.
template <class F>
double seconds(Rank& rank, F call) {
  constexpr int calls = 5;
  rank.stream.synchronize();
  const auto begin = Clock::now();
  for (int k = 0; k < calls; ++k) call();
  rank.stream.synchronize();
  return std::chrono::duration<double>(Clock::now() - begin).count() / calls;
}

template <class Kind>
void run(benchmark::State& state) {
  constexpr int rounds = 5;
  int ranks = 0;
  if (cudaGetDeviceCount(&ranks) != cudaSuccess || ranks == 0)
    return state.SkipWithError("there is no GPU");
  ncclUniqueId ids[2];
  for (ncclUniqueId& id : ids) must(ncclGetUniqueId(&id), "ncclGetUniqueId");
  double best = 1e9, best_plain = 1e9;
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  for (auto _ : state) {
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        try {
          Rank rank(r, ranks, static_cast<std::size_t>(state.range(0)), ids);
          for (int round = 0; round < rounds; ++round) {
            const double time = seconds(rank, [&] { Kind::collective(rank); });
            const double plain = seconds(rank, [&] { must(Kind::plain(rank), "a call of NCCL"); });
            if (r != 0 || round == 0) continue;  // the first one warms up
            best = std::min(best, time);
            best_plain = std::min(best_plain, plain);
          }
        } catch (const std::exception& error) {
          errors[static_cast<std::size_t>(r)] = error.what();
        }
      });
    }
    threads.clear();  // waits
    state.SetIterationTime(best);
  }
  for (const std::string& error : errors) {
    if (!error.empty()) return state.SkipWithError(error.c_str());
  }
  state.counters["best_us"] = best * 1e6;
  state.counters["best_ratio"] = best_plain / best;
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("bytes")->UseManualTime();
  benchmark->Arg(1 << 12)->Arg(1 << 20)->Arg(1 << 26)->Iterations(1);
}
BENCHMARK(run<AllGather>)->Name("nccl_all_gather")->Apply(sizes);
BENCHMARK(run<ReduceScatter>)->Name("nccl_reduce_scatter")->Apply(sizes);
BENCHMARK(run<AllReduce>)->Name("nccl_all_reduce")->Apply(sizes);

}  // namespace
