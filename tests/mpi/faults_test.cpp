// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Each call of MPI fails in turn on one rank: an error of a known type, and nobody waits for ever.
#include "faults.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "ranks.hpp"

BOOST_AUTO_TEST_SUITE(faults_test)

using namespace std::chrono_literals;
using Comm = zero::MpiCommunicator;

/// Each collective on a part and on the whole, in several messages. What was thrown, by its type.
std::string run(MPI_Comm own, std::chrono::milliseconds limit, bool& at_end) {
  try {
    const Comm comm(own, {.time_limit = limit, .message_elements = 16});
    const Comm part = comm.split(static_cast<int>(comm.rank() % 2), 0);
    zero::HostDevice device({.mode = zero::StreamMode::asynchronous});
    zero::HostStream& stream = device.make_stream("comm");
    std::vector<float> data(100, 1), whole(100 * comm.size());
    part.all_reduce(data.data(), data.size());
    comm.all_gather(stream, data.data(), whole.data(), data.size());
    stream.synchronize();
    comm.reduce_scatter(whole.data(), data.data(), data.size());
    comm.broadcast(data.data(), data.size(), 1);
    at_end = true;
  } catch (const zero::TimeoutError& error) {
    return std::string("timeout: ") + error.what();
  } catch (const zero::CommunicatorError& error) {
    return std::string("comm: ") + error.what();
  } catch (const zero::ContractError& error) { return std::string("contract: ") + error.what(); }
  return "";
}

/// Runs it with a fault on rank 1. Returns whether the call was made.
bool run_with_fault(const char* function, std::size_t occurrence) {
  MPI_Comm own = MPI_COMM_NULL;  // what is left unfinished stays within it
  PMPI_Comm_dup(MPI_COMM_WORLD, &own);
  bool at_end = false, happened = false;
  std::string mine;
  if (mpi_test::rank() == 1) mpi_test::arm_fault(function, occurrence);
  mine = run(own, 200ms, at_end);
  if (mpi_test::rank() == 1) happened = mpi_test::disarm_fault();
  mine += "|" + std::to_string(at_end) + std::to_string(happened);
  const std::vector<std::string> all = mpi_test::all_of(mine);
  if (!all.empty()) happened = all[1].back() == '1';
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::string& text = all[rank];
    const std::string where = std::string(function) + " " + std::to_string(occurrence) + ", rank " +
                              std::to_string(rank) + ": " + text;
    const bool ended = text[text.size() - 2] == '1';
    // An error that nobody saw can be one of the end only.
    BOOST_TEST((text[0] != '|' || ended), where);
    if (rank == 1 && happened && !ended) {
      BOOST_TEST((text.find(function) != std::string::npos || !text.starts_with("comm: ")), where);
    }
    if (rank != 1) BOOST_TEST(!text.starts_with("contract: "), where);
  }
  int next = happened ? 1 : 0;
  MPI_Bcast(&next, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return next != 0;
}

BOOST_AUTO_TEST_CASE(any_call_of_mpi_may_fail_on_one_rank) {
  std::map<std::string, std::size_t> happened;
  const std::vector<const char*> functions = {
      "MPI_Initialized",     "MPI_Finalized",     "MPI_Query_thread",
      "MPI_Comm_test_inter", "MPI_Comm_idup",     "MPI_Test",
      "MPI_Comm_rank",       "MPI_Comm_size",     "MPI_Comm_set_errhandler",
      "MPI_Comm_free",       "MPI_Comm_get_attr", "MPI_Irecv",
      "MPI_Isend",           "MPI_Cancel",        "MPI_Iprobe",
      "MPI_Testall",         "MPI_Wait"};
  for (const char* const function : functions) {
    for (const std::size_t occurrence : {1U, 2U, 3U, 5U, 8U, 13U, 21U, 34U}) {
      if (!run_with_fault(function, occurrence)) break;
      ++happened[function];
    }
  }
  std::size_t faults = 0;
  for (const char* const function : functions) {
    BOOST_TEST(happened[function] != 0U, function);
    faults += happened[function];
  }
  BOOST_TEST(faults >= 40U);
  bool at_end = false;
  BOOST_TEST(run(MPI_COMM_WORLD, 100s, at_end) == "");
  BOOST_TEST(at_end);
}

BOOST_AUTO_TEST_CASE(an_mpi_that_serves_its_first_thread_only_is_refused) {
  for (const int level : {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED}) {
    mpi_test::pretend_thread_level(level);
    BOOST_CHECK_EXCEPTION(Comm{MPI_COMM_WORLD}, zero::ContractError, [](const auto& error) {
      return std::string(error.what()).find("MPI_THREAD_SERIALIZED") != std::string::npos;
    });
  }
  mpi_test::pretend_thread_level(MPI_THREAD_SERIALIZED);
  bool at_end = false;
  BOOST_TEST(run(MPI_COMM_WORLD, 100s, at_end) == "");
  mpi_test::pretend_thread_level(-1);
}

BOOST_AUTO_TEST_SUITE_END()
