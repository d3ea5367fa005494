// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Ranks with a GPU each: threads of one process, or processes that a launcher started. Includes
// zero/cuda.hpp and zero/comm/launch/.
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>
#include <zero/comm/launch/place.hpp>
#include <zero/comm/launch/share_by_file.hpp>
#include <zero/cuda.hpp>

#include "check.hpp"

namespace gpt {

inline int gpu_count() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

/// Calls f(comm) in this process as the rank that its launcher made it. All processes see the file
/// `path`, through which they learn the name of their communicator.
template <class F>
void run_as_process(const zero::LaunchPlace& place, const std::string& path, const F& f) {
  const std::size_t gpu = place.local_rank.value_or(place.rank);
  check(cudaSetDevice(static_cast<int>(gpu)), "cudaSetDevice");
  ncclUniqueId id{};
  zero::LaunchBlob blob{};
  static_assert(sizeof id == sizeof blob);
  if (place.rank == 0) id = zero::nccl_unique_id();
  std::memcpy(blob.data(), &id, sizeof id);
  const zero::FileRendezvous where{.path = path, .run = place.run.empty() ? "gpt" : place.run};
  blob = zero::share_by_file(where, place.rank, blob);
  std::memcpy(&id, blob.data(), sizeof id);
  auto comm = zero::NcclCommunicator::make(id, place.rank, place.size);
  comm.barrier();  // all have read it
  if (place.rank == 0) std::filesystem::remove(path);
  f(comm);
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
