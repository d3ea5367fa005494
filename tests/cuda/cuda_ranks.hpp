// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Ranks over NCCL where each has a device of its own; otherwise ranks that share one.
#pragma once

#include <cstddef>
#include <exception>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "device_communicator.hpp"
#include "ranks.hpp"

namespace cuda_tests {

/// A Communicator over NCCL or within one device, so that what is trained over both is compiled
/// once.
class CudaRanks {
  template <class F>
  decltype(auto) visit(F f) const {
    return std::visit(f, one_);
  }

 public:
  using Stream = zero::CudaStream;

  explicit CudaRanks(zero::NcclCommunicator comm) : one_(std::move(comm)) {}
  explicit CudaRanks(DeviceCommunicator comm) : one_(std::move(comm)) {}

  std::size_t rank() const {
    return visit([](const auto& comm) { return comm.rank(); });
  }
  std::size_t size() const {
    return visit([](const auto& comm) { return comm.size(); });
  }
  zero::Traffic sent() const {
    return visit([](const auto& comm) { return comm.sent(); });
  }
  CudaRanks split(int color, int key) const {
    return visit([&](const auto& comm) { return CudaRanks(comm.split(color, key)); });
  }
  void abort(std::string_view why) const noexcept {
    visit([&](const auto& comm) { comm.abort(why); });
  }
  template <class... Arguments>
  void all_gather(Arguments&&... arguments) const {
    visit([&](const auto& comm) { comm.all_gather(arguments...); });
  }
  template <class... Arguments>
  void reduce_scatter(Arguments&&... arguments) const {
    visit([&](const auto& comm) { comm.reduce_scatter(arguments...); });
  }
  template <class... Arguments>
  void all_reduce(Arguments&&... arguments) const {
    visit([&](const auto& comm) { comm.all_reduce(arguments...); });
  }
  template <class... Arguments>
  void broadcast(Arguments&&... arguments) const {
    visit([&](const auto& comm) { comm.broadcast(arguments...); });
  }
  /// One operation of NCCL; ranks that share a device have none of the kind.
  template <class F>
  void grouped(F f) const {
    const auto* const nccl = std::get_if<zero::NcclCommunicator>(&one_);
    nccl == nullptr ? f() : nccl->grouped(f);
  }
  template <class... Arguments>
  void barrier(Arguments&&... arguments) const {
    visit([&](const auto& comm) { comm.barrier(arguments...); });
  }

 private:
  std::variant<zero::NcclCommunicator, DeviceCommunicator> one_;
};

static_assert(zero::Communicator<CudaRanks>);

/// Calls f(communicator) as each rank; the error of each, "" for none.
template <class F>
std::vector<Outcome> cuda_outcomes(std::size_t ranks, const zero::NcclOptions& options,
                                   const F& f) {
  if (ranks <= static_cast<std::size_t>(device_count())) {
    return outcomes(ranks, options, [&](const zero::NcclCommunicator& nccl) {
      CudaRanks comm(nccl);
      f(comm);
    });
  }
  const auto threads = zero::ThreadCommunicator::make(ranks, {options.time_limit});
  const auto run = [&](std::size_t rank) {
    const zero::ThreadCommunicator& host = threads[rank];
    try {
      CudaRanks comm{DeviceCommunicator(host)};
      f(comm);
    } catch (const std::exception& error) {
      host.abort(error.what());
      throw;
    }
  };
  return on_threads(ranks, run, 0);
}

}  // namespace cuda_tests
