// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What the emulator's own tests share: device arrays, and ranks as threads.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "emulator.hpp"

namespace emulator_test {

inline cudaStream_t make_stream(unsigned flags = cudaStreamNonBlocking) {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, flags);
  return stream;
}
inline cudaEvent_t make_event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, flags);
  return event;
}
/// Lets `later` wait for what was enqueued on `earlier`.
inline cudaError_t pass(cudaStream_t earlier, cudaStream_t later, cudaEvent_t event) {
  if (const cudaError_t error = cudaEventRecord(event, earlier)) return error;
  return cudaStreamWaitEvent(later, event, 0);
}

template <class T>
class Array {
 public:
  explicit Array(std::size_t count) : count_(count) {
    cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T));
  }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~Array() { cudaFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  T* data() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  /// What it holds once `stream` is done.
  std::vector<T> values(cudaStream_t stream = nullptr) const {
    std::vector<T> host(count_);
    cudaMemcpyAsync(host.data(), data_, bytes(), cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    return host;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

template <class T>
class Pinned {
 public:
  explicit Pinned(std::size_t count) {
    cudaMallocHost(reinterpret_cast<void**>(&data_), count * sizeof(T));
  }
  ~Pinned() { cudaFreeHost(data_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  T& operator[](std::size_t i) const { return data_[i]; }
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

/// One rank of run_ranks.
struct Rank {
  int rank;
  ncclComm_t comm;
  cudaStream_t stream;
};

/// Runs `body(Rank&)` as `size` threads, each with a device of its own; returns what they return.
/// A body that destroys its communicator sets it to null.
template <class Body>
auto run_ranks(int size, Body body) {
  using Result = decltype(body(std::declval<Rank&>()));
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::deque<Result> results(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      cudaSetDevice(rank);
      Rank own{rank, nullptr, make_stream()};
      ncclCommInitRank(&own.comm, size, id, rank);
      results[static_cast<std::size_t>(rank)] = body(own);
      if (own.comm) ncclCommDestroy(own.comm);
      cudaStreamDestroy(own.stream);
    });
  }
  for (auto& thread : threads) thread.join();
  return results;
}

/// The collective's error, asked for until there is one or a second passed.
inline ncclResult_t wait_for_error(ncclComm_t comm) {
  ncclResult_t error = ncclSuccess;
  for (int i = 0; i < 1000 && error == ncclSuccess; ++i) {
    ncclCommGetAsyncError(comm, &error);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return error;
}

}  // namespace emulator_test
