// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Ranks over NCCL as threads of a test, each on a device of its own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>
#include <zero/comm/nccl/communicator.hpp>

namespace cuda_tests {

inline int device_count() {
  int count = 0;
  zero::detail::check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

/// Whether there are fewer devices than `wanted`, in which case it says that the caller does less.
inline bool too_few_devices(std::size_t wanted) {
  const auto count = static_cast<std::size_t>(device_count());
  if (count < wanted) {
    std::printf("zero-devices: %zu of %zu, so that this runs on fewer ranks or not at all\n", count,
                wanted);
  }
  return count < wanted;
}

/// As many ranks as there are devices for, at most `wanted`.
inline std::size_t ranks_for(std::size_t wanted) {
  return too_few_devices(wanted) ? static_cast<std::size_t>(device_count()) : wanted;
}

/// What f(rank) threw on each rank, "" for nothing.
struct Outcome {
  std::string error;
  bool timeout = false;
  bool communicator_error = false;
  bool cuda_error = false;
  bool typed = true;  ///< nothing, or a zero::Error
};

/// Calls f(rank) on a thread of each rank, whose current device is given or has the rank's number.
template <class F>
std::vector<Outcome> on_threads(std::size_t ranks, const F& f, int device = -1) {
  std::vector<Outcome> all(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Outcome& mine = all[rank];
      try {
        zero::detail::check_cuda(cudaSetDevice(device < 0 ? static_cast<int>(rank) : device),
                                 "cudaSetDevice");
        f(rank);
      } catch (const zero::Error& error) {
        mine.error = error.what();
        mine.timeout = dynamic_cast<const zero::TimeoutError*>(&error) != nullptr;
        mine.communicator_error = dynamic_cast<const zero::CommunicatorError*>(&error) != nullptr;
        mine.cuda_error = dynamic_cast<const zero::CudaError*>(&error) != nullptr;
      } catch (const std::exception& error) {
        mine.error = error.what();
        mine.typed = false;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return all;
}

/// Calls f(communicator) as each rank; what a rank throws is an outcome, and the others' end.
template <class F>
std::vector<Outcome> outcomes(std::size_t ranks, const zero::NcclOptions& options, const F& f) {
  const ncclUniqueId id = zero::nccl_unique_id();
  return on_threads(ranks, [&](std::size_t rank) {
    auto comm = zero::NcclCommunicator::make(id, rank, ranks, options);
    f(comm);
  });
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace cuda_tests
