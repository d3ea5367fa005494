// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Three processes, of which the last one is killed: the others say what they learned of it.
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <zero/comm/mpi/run_mpi.hpp>

int main() {
  const zero::MpiSession session;
  std::string text = "nothing";
  {
    const zero::MpiCommunicator comm(MPI_COMM_WORLD, {.time_limit = std::chrono::seconds(1)});
    if (comm.rank() == 2) raise(SIGKILL);
    float value = 1;
    try {
      comm.all_reduce(&value, 1, {.unit = "block.3", .position = 17});
    } catch (const zero::TimeoutError& error) { text = error.what(); }
    text = "rank " + std::to_string(comm.rank()) + " learned: " + text;
  }
  std::puts(text.c_str());
  std::fflush(stdout);
  _exit(0);  // MPI's own end would wait for the process that was killed
}
