// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Tests whose ranks are processes. Each runs all cases; rank 0 asserts what the others tell it, by
// plain MPI, so that a communicator under test has no part in it.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <exception>
#include <string>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/comm/mpi/mpi_communicator.hpp>

namespace mpi_test {

inline int rank() {
  int number = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &number);
  return number;
}

/// The processes of rank 0 to `count` - 1 as an MPI communicator, made once; null on the others. A
/// collective of all processes.
inline MPI_Comm first_ranks(std::size_t count) {
  static std::array<MPI_Comm, 9> made = [] {
    std::array<MPI_Comm, 9> none;
    none.fill(MPI_COMM_NULL);
    return none;
  }();
  static std::array<bool, 9> is_made{};
  if (!std::exchange(is_made[count], true)) {
    const bool inside = rank() < static_cast<int>(count);
    MPI_Comm_split(MPI_COMM_WORLD, inside ? 0 : MPI_UNDEFINED, 0, &made[count]);
  }
  return made[count];
}

/// What all processes pass, by rank, on rank 0; on the others nothing.
inline std::vector<std::string> all_of(const std::string& mine) {
  int processes = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  const auto count = static_cast<std::size_t>(processes);
  std::vector<int> bytes(count), begin(count);
  const int own = static_cast<int>(mine.size());
  MPI_Gather(&own, 1, MPI_INT, bytes.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (std::size_t r = 1; r < count; ++r) begin[r] = begin[r - 1] + bytes[r - 1];
  std::string text(static_cast<std::size_t>(begin.back() + bytes.back()), ' ');
  MPI_Gatherv(mine.data(), own, MPI_CHAR, text.data(), bytes.data(), begin.data(), MPI_CHAR, 0,
              MPI_COMM_WORLD);
  std::vector<std::string> all;
  if (rank() != 0) return all;
  for (std::size_t r = 0; r < count; ++r) {
    all.push_back(
        text.substr(static_cast<std::size_t>(begin[r]), static_cast<std::size_t>(bytes[r])));
  }
  return all;
}

/// What f(communicator) threw on each of the first `ranks` processes: "timeout: ...", "comm: ...",
/// "other: ..." or nothing. On rank 0; on others, as many empty texts.
template <class F>
std::vector<std::string> outcomes(std::size_t ranks, zero::MpiOptions options, F f) {
  std::string mine;
  const MPI_Comm comm = first_ranks(ranks);
  if (comm != MPI_COMM_NULL) {
    try {
      zero::MpiCommunicator made(comm, options);
      f(made);
    } catch (const zero::TimeoutError& error) {
      mine = std::string("timeout: ") + error.what();
    } catch (const zero::CommunicatorError& error) {
      mine = std::string("comm: ") + error.what();
    } catch (const std::exception& error) { mine = std::string("other: ") + error.what(); }
  }
  std::vector<std::string> all = all_of(mine);
  all.resize(ranks);
  return all;
}

}  // namespace mpi_test
