// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What every communicator promises, on processes.
#include <mpi.h>

#include <array>
#include <cstddef>
#include <string>

#include "../comm/conformance.hpp"
#include "../comm/host_place.hpp"
#include "ranks.hpp"

BOOST_AUTO_TEST_SUITE(mpi_communicator_test)

struct World : conformance::HostWorld {
  static constexpr std::array<std::size_t, 4> ranks = {1, 2, 3, 4};

  template <class F>
  static void run(std::size_t count, F f) {
    const MPI_Comm comm = mpi_test::first_ranks(count);
    if (comm == MPI_COMM_NULL) return;
    zero::MpiCommunicator made(comm);
    f(made);
  }
  static void meet(std::size_t count) { MPI_Barrier(mpi_test::first_ranks(count)); }
  static std::array<std::size_t, 8>& shared() {
    static std::array<std::size_t, 8>* const numbers = [] {
      MPI_Win window;
      void* memory = nullptr;
      MPI_Aint bytes = mpi_test::rank() == 0 ? sizeof(std::array<std::size_t, 8>) : 0;
      MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
      int unit = 0;
      MPI_Win_shared_query(window, 0, &bytes, &unit, static_cast<void*>(&memory));
      return static_cast<std::array<std::size_t, 8>*>(memory);
    }();
    return *numbers;
  }
  static std::string all_of(const std::string& mine) {
    std::string text;
    for (const std::string& findings : mpi_test::all_of(mine)) text += findings;
    return text;
  }
};

#include "../comm/conformance_cases.hpp"

BOOST_AUTO_TEST_SUITE_END()
