// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Ranks that are threads of one process, with a GPU each. Includes zero/cuda.hpp.
#pragma once

#include <cstddef>
#include <exception>
#include <thread>
#include <vector>
#include <zero/cuda.hpp>

#include "check.hpp"

namespace gpt {

inline int gpu_count() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

/// Calls f(comm) on a thread of each rank, whose current device is the one with the rank's number.
/// When a rank throws, the others' collectives fail, and its error is thrown here.
template <class F>
void run_on_gpus(std::size_t ranks, const F& f) {
  const ncclUniqueId id = zero::nccl_unique_id();
  const zero::NcclBoard board(ranks);
  zero::NcclOptions options;
  options.board = &board;
  std::vector<std::exception_ptr> errors(ranks);
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          check(cudaSetDevice(static_cast<int>(rank)), "cudaSetDevice");
          auto comm = zero::NcclCommunicator::make(id, rank, ranks, options);
          try {
            f(comm);
          } catch (const std::exception& error) {
            comm.abort(error.what());
            throw;
          }
        } catch (...) { errors[rank] = std::current_exception(); }
      });
    }
  }
  std::exception_ptr first;
  for (const std::exception_ptr& error : errors) {
    if (error == nullptr) continue;
    try {
      std::rethrow_exception(error);
    } catch (const zero::CommunicatorError&) {  // so a rank learns of what another one threw
      if (first == nullptr) first = error;
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace gpt
