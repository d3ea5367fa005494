// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Runs a function as the rank that MPI made of this process. Includes
// comm/mpi/mpi_communicator.hpp.
#pragma once

#include <mpi.h>

#include <concepts>
#include <exception>
#include <zero/comm/mpi/detail/duplicate.hpp>
#include <zero/comm/mpi/mpi_communicator.hpp>

namespace zero {

/// MPI, from here to the end of the scope; where it runs already, nothing.
class MpiSession {
 public:
  /// Errors:  CommunicatorError if MPI cannot begin, or has ended already.
  MpiSession() {
    if (detail::mpi_runs()) return;
    int level = 0;
    detail::check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level),
                      "MPI_Init_thread");
    owns_ = true;
  }
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  ~MpiSession() {
    if (owns_ && detail::mpi_runs()) MPI_Finalize();
  }

 private:
  bool owns_ = false;
};

/// Runs f(comm) as this process's rank among all that the launcher started, and ends MPI if it had
/// not begun. What f throws makes the collectives of the other ranks fail, and is thrown again.
template <std::invocable<MpiCommunicator&> F>
void run_mpi(F&& f, MpiOptions options = {}) {
  const MpiSession session;
  MpiCommunicator comm(MPI_COMM_WORLD, options);
  try {
    f(comm);
  } catch (const std::exception& error) {
    comm.abort(error.what());
    throw;
  } catch (...) {
    comm.abort("an exception that is not a std::exception");
    throw;
  }
}

}  // namespace zero
