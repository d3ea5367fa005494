// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The state of MPI, its errors, and a communicator of MPI that is the library's own. Includes base/
// and mpi.h.
#pragma once

#include <mpi.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <zero/base/error.hpp>

namespace zero::detail {

inline void check_mpi(int code, const char* function) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  throw CommunicatorError(std::string(function) +
                          " failed: " + (length == 0 ? "error " + std::to_string(code) : text) +
                          ". Look at what MPI itself printed; make a new communicator to go on.");
}

/// Whether MPI has begun and has not ended.
inline bool mpi_runs() {
  int begun = 0, ended = 0;
  return MPI_Initialized(&begun) == MPI_SUCCESS && begun != 0 &&
         MPI_Finalized(&ended) == MPI_SUCCESS && ended == 0;
}

/// Refuses what no communicator can be made of.
inline void check_usable(MPI_Comm comm) {
  const std::string call = "MpiCommunicator: ";
  if (!mpi_runs()) {
    throw ContractError(call + "MPI is not running. Call MPI_Init_thread before, or use run_mpi.");
  }
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level < MPI_THREAD_SERIALIZED) {
    throw ContractError(call +
                        "MPI may be called by its first thread only, but streams have "
                        "threads of their own. Ask MPI_Init_thread for "
                        "MPI_THREAD_MULTIPLE or MPI_THREAD_SERIALIZED.");
  }
  if (comm == MPI_COMM_NULL) {
    throw ContractError(call + "the communicator is MPI_COMM_NULL. Pass one that has this rank.");
  }
  int between_groups = 0;
  check_mpi(MPI_Comm_test_inter(comm, &between_groups), "MPI_Comm_test_inter");
  if (between_groups != 0) {
    throw ContractError(call +
                        "the communicator joins two groups. Merge them (MPI_Intercomm_merge)"
                        " before.");
  }
}

/// A communicator of the same ranks whose messages nobody else sees and whose errors are returned.
inline MPI_Comm duplicate(MPI_Comm comm, std::chrono::milliseconds limit) {
  check_usable(comm);
  auto made = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Comm_idup(comm, made.get(), &request), "MPI_Comm_idup");
  const auto end = std::chrono::steady_clock::now() + limit;
  for (int done = 0; done == 0;) {
    if (const int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE); code != MPI_SUCCESS) {
      static_cast<void>(made.release());  // MPI may still write there
      check_mpi(code, "MPI_Test of MPI_Comm_idup");
    }
    if (done == 0 && std::chrono::steady_clock::now() > end) {
      static_cast<void>(made.release());
      throw TimeoutError(
          "MpiCommunicator: not all ranks of MPI's communicator made theirs within " +
          std::to_string(limit.count()) +
          " ms. Make it on every rank, or give ranks more time (time_limit).");
    }
    if (done == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  check_mpi(MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return *made;
}

}  // namespace zero::detail
