// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Programs with one planted mistake each, and their like without it: what finds it?
// usage: emulator_planted MISTAKE [mended]
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "emulator/emulator.hpp"
#include "kernels.hpp"

namespace {

template <class Result>
void must(Result result, const char* call) {
  if (static_cast<int>(result) == 0) return;
  std::printf("%s returned %d\n", call, static_cast<int>(result));
  std::exit(1);
}
#define MUST(call) must(call, #call)

constexpr std::size_t count = 4096;
constexpr std::size_t bytes = count * sizeof(float);

struct Things {
  cudaStream_t a, b;
  cudaEvent_t event, other;
  float *first, *second, *pinned;
  Things() {
    MUST(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&other, cudaEventDisableTiming));
    MUST(cudaMalloc(reinterpret_cast<void**>(&first), bytes));
    MUST(cudaMalloc(reinterpret_cast<void**>(&second), bytes));
    MUST(cudaMallocHost(reinterpret_cast<void**>(&pinned), bytes));
  }
  void pass(cudaStream_t from, cudaStream_t to) const {
    MUST(cudaEventRecord(event, from));
    MUST(cudaStreamWaitEvent(to, event, 0));
  }
  void finish() const {
    MUST(cudaStreamSynchronize(a));
    MUST(cudaStreamSynchronize(b));
  }
};

void forgotten_wait(bool mended) {
  const Things t;
  MUST(cudaMemsetAsync(t.first, 1, bytes, t.a));
  if (mended) t.pass(t.a, t.b);
  MUST(cudaMemcpyAsync(t.second, t.first, bytes, cudaMemcpyDeviceToDevice, t.b));
  t.finish();
}

/// The wait for a record that came before the work that is needed.
void wait_for_an_old_record(bool mended) {
  const Things t;
  t.pass(t.a, t.b);
  MUST(cudaMemsetAsync(t.first, 1, bytes, t.a));
  if (mended) t.pass(t.a, t.b);
  MUST(cudaMemcpyAsync(t.second, t.first, bytes, cudaMemcpyDeviceToDevice, t.b));
  t.finish();
}

/// A stage-3 step: gather on one stream, compute on another, for each rank a thread.
void forgotten_wait_for_a_collective(bool mended) {
  ncclUniqueId id;
  MUST(ncclGetUniqueId(&id));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([=] {
      MUST(cudaSetDevice(rank));
      ncclComm_t comm;
      MUST(ncclCommInitRank(&comm, 2, id, rank));
      const Things t;
      MUST(cudaMemsetAsync(t.first, rank, bytes / 2, t.a));
      MUST(ncclAllGather(t.first, t.second, count / 2, ncclFloat32, comm, t.a));
      if (mended) t.pass(t.a, t.b);
      MUST(
          cudaMemcpyAsync(t.first + count / 2, t.second, bytes / 2, cudaMemcpyDeviceToDevice, t.b));
      t.finish();
      MUST(ncclCommDestroy(comm));
    });
  }
  for (auto& rank : ranks) rank.join();
}

/// A buffer is produced on one stream, copied to the host on another, and freed in the order of the
/// first, which does not wait for the copy.
void freed_while_another_stream_reads(bool mended) {
  const Things t;
  float* gradients;
  MUST(cudaMallocAsync(reinterpret_cast<void**>(&gradients), bytes, t.a));
  MUST(cudaMemsetAsync(gradients, 0, bytes, t.a));
  t.pass(t.a, t.b);
  MUST(cudaMemcpyAsync(t.pinned, gradients, bytes, cudaMemcpyDeviceToHost, t.b));
  if (mended) t.pass(t.b, t.a);
  MUST(cudaFreeAsync(gradients, t.a));
  t.finish();
}

void used_after_it_was_freed(bool mended) {
  const Things t;
  float* freed;
  MUST(cudaMallocAsync(reinterpret_cast<void**>(&freed), bytes, t.a));
  if (!mended) MUST(cudaFreeAsync(freed, t.a));
  MUST(cudaMemsetAsync(freed, 0, bytes, t.a));
  const cudaError_t error = cudaStreamSynchronize(t.a);
  if (mended) MUST(cudaFreeAsync(freed, t.a));
  std::printf("synchronised: %s\n", cudaGetErrorName(error));
}

void host_reads_before_it_waits(bool mended) {
  const Things t;
  MUST(cudaMemsetAsync(t.first, 0, bytes, t.a));
  MUST(cudaMemcpyAsync(t.pinned, t.first, bytes, cudaMemcpyDeviceToHost, t.a));
  if (mended) MUST(cudaStreamSynchronize(t.a));
  std::printf("read %g\n", static_cast<double>(t.pinned[5]));
  t.finish();
}

void host_reuses_a_buffer_that_is_being_copied(bool mended) {
  const Things t;
  std::memset(t.pinned, 0, bytes);
  MUST(cudaMemcpyAsync(t.first, t.pinned, bytes, cudaMemcpyHostToDevice, t.a));
  if (mended) MUST(cudaStreamSynchronize(t.a));
  std::memset(t.pinned, 1, bytes);
  t.finish();
}

/// Two branches of a captured graph, of which one needs what the other writes.
void forgotten_wait_in_a_graph(bool mended) {
  const Things t;
  MUST(cudaStreamBeginCapture(t.a, cudaStreamCaptureModeThreadLocal));
  t.pass(t.a, t.b);
  MUST(cudaMemsetAsync(t.first, 1, bytes, t.a));
  if (mended) t.pass(t.a, t.b);
  MUST(cudaMemcpyAsync(t.second, t.first, bytes, cudaMemcpyDeviceToDevice, t.b));
  t.pass(t.b, t.a);
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  MUST(cudaStreamEndCapture(t.a, &graph));
  MUST(cudaGraphInstantiate(&executable, graph, 0));
  MUST(cudaGraphLaunch(executable, t.a));
  MUST(cudaGraphLaunch(executable, t.b));
  t.finish();
}

/// Work of a test's own that writes past the end.
void work_writes_past_the_end(bool mended) {
  const Things t;
  const std::size_t last = mended ? bytes - 1 : bytes;
  char* odd;
  MUST(cudaMalloc(reinterpret_cast<void**>(&odd), bytes - 100));
  MUST(emulator::enqueue(t.a, "fill", [=] { emulator::host_view(odd)[last - 100] = 1; }));
  t.finish();
  MUST(cudaFree(odd));
}

void host_reads_device_memory(bool mended) {
  const Things t;
  std::memset(t.pinned, 0, bytes);
  const float* const read = mended ? t.pinned : t.first;
  std::printf("read %g\n", static_cast<double>(read[5]));
}

void destroyed_twice(bool mended) {
  const Things t;
  MUST(cudaStreamDestroy(t.a));
  if (!mended) std::printf("%s\n", cudaGetErrorName(cudaStreamDestroy(t.a)));
}

}  // namespace

int main(int arguments, char** argument) {
  const std::map<std::string, std::function<void(bool)>> mistakes = {
      {"forgotten_wait", forgotten_wait},
      {"wait_for_an_old_record", wait_for_an_old_record},
      {"forgotten_wait_for_a_collective", forgotten_wait_for_a_collective},
      {"freed_while_another_stream_reads", freed_while_another_stream_reads},
      {"used_after_it_was_freed", used_after_it_was_freed},
      {"host_reads_before_it_waits", host_reads_before_it_waits},
      {"host_reuses_a_buffer_that_is_being_copied", host_reuses_a_buffer_that_is_being_copied},
      {"forgotten_wait_in_a_graph", forgotten_wait_in_a_graph},
      {"work_writes_past_the_end", work_writes_past_the_end},
      {"host_reads_device_memory", host_reads_device_memory},
      {"destroyed_twice", destroyed_twice},
      {"kernel_stores_past_the_end", kernel_stores_past_the_end},
      {"kernel_uses_freed_memory", kernel_uses_freed_memory},
      {"kernels_race", kernels_race},
  };
  const auto found = arguments > 1 ? mistakes.find(argument[1]) : mistakes.end();
  if (found == mistakes.end()) {
    for (const auto& [name, mistake] : mistakes) std::puts(name.c_str());
    return 2;
  }
  emulator::set_delays(200, 1);
  found->second(arguments > 2);
  std::puts("end");
}
