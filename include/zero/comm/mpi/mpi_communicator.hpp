// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A communicator whose ranks are processes that MPI connects. Includes mpi.h and
// comm/{detail,mpi}/.
#pragma once

#include <mpi.h>

#include <climits>
#include <cstddef>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/comm/communicator.hpp>
#include <zero/comm/detail/host_collectives.hpp>
#include <zero/comm/mpi/detail/mpi_task.hpp>
#include <zero/comm/mpi/options.hpp>

namespace zero {

/// A rank among processes, on CPU memory. MPI moves bytes; sums, averages and half types are the
/// library's, so that results are the bits of ThreadCommunicator. Needs MPI 3.0.
///
/// MPI's communicator stays the user's: this is made of a duplicate. A copy is another name of the
/// same rank; one thread of a rank issues its collectives; any thread may abort. Before MPI ends,
/// all copies are destroyed; the last one waits up to a second for the other ranks to do the same,
/// and if they do not, MPI keeps the duplicate. After a failure all further calls fail: make a new
/// one to go on.
///
/// A collective begins with a message of 200 bytes between each two ranks. Nothing is allocated by
/// it, as far as MPI itself allocates nothing.
///
/// Threads: streams call MPI from their threads, under one lock for all communicators that were
///          split from one. MPI_THREAD_SERIALIZED is enough if the program makes no calls of MPI
///          beside them, and makes one such world only; else it needs MPI_THREAD_MULTIPLE.
/// Failure: a rank that throws, leaves or aborts makes the others fail at once. A process that
///          dies without a word is late: TimeoutError, if MPI's launcher leaves the others alive.
///          MPI_Abort is never called. Units and operations are compared by their first 96 and
///          named by their first 31 bytes.
class MpiCommunicator : public detail::HostCollectives<detail::MpiTask> {
 public:
  using Stream = HostStream;  // on which collectives may be enqueued

  /// The ranks of `comm`. A collective; blocks.
  ///
  /// Errors:  ContractError if MPI does not run, allows calls by its first thread only, or if there
  ///          is nothing in `comm` or in `options` to work with; TimeoutError if a rank does not
  ///          come; CommunicatorError if MPI fails or ranks differ in `options`.
  explicit MpiCommunicator(MPI_Comm comm, MpiOptions options = {})
      : HostCollectives(make_member(comm, options)) {
    barrier({.operation = "MpiCommunicator"});
  }

  /// A communicator of the ranks that pass the same color, ordered by key, then by rank.
  /// A collective; blocks.
  MpiCommunicator split(int color, int key) const {
    detail::MpiSplit split{.color = color, .key = key};
    run({.collective = Collective::split, .out = &split});
    return MpiCommunicator(std::move(split.member));
  }

 private:
  explicit MpiCommunicator(std::shared_ptr<Member> member) : HostCollectives(std::move(member)) {}

  static std::shared_ptr<Member> make_member(MPI_Comm comm, const MpiOptions& options) {
    constexpr std::size_t most = INT_MAX / 8;
    if (options.message_elements == 0 || options.message_elements > most ||
        options.time_limit.count() <= 0) {
      throw ContractError(
          "MpiCommunicator: time_limit is " + std::to_string(options.time_limit.count()) +
          " ms, message_elements " + std::to_string(options.message_elements) +
          ". Both must be positive, message_elements at most " + std::to_string(most) + ".");
    }
    auto world = std::make_shared<detail::MpiWorld>(comm, options);
    std::vector<std::size_t> ranks(world->ranks());
    std::iota(ranks.begin(), ranks.end(), std::size_t{0});
    world->use_group(0);
    const std::size_t rank = world->rank();
    return std::make_shared<Member>(std::move(world), std::move(ranks), rank, 0);
  }
};

static_assert(Communicator<MpiCommunicator>);

}  // namespace zero
