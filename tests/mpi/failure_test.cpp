// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What processes learn when one of them does something else, hangs, leaves or fails.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <zero/comm/mesh.hpp>

#include "ranks.hpp"

BOOST_AUTO_TEST_SUITE(failure_test)

using namespace std::chrono_literals;
using Comm = zero::MpiCommunicator;
using Clock = std::chrono::steady_clock;

constexpr auto limit = 500ms;
// Far above what an error needs at once, far below the limit that it would need otherwise.
constexpr zero::MpiOptions patient = {.time_limit = 100s};
constexpr auto at_once = 20s;

/// Each of the outcomes of `ranks` begins with `kind` and contains all of `parts`.
void check(const std::vector<std::string>& all, const std::vector<std::size_t>& ranks,
           const std::string& kind, const std::vector<std::string>& parts) {
  if (mpi_test::rank() != 0) return;
  for (const std::size_t rank : ranks) {
    BOOST_TEST(all[rank].starts_with(kind), rank << ": " << all[rank]);
    for (const std::string& part : parts) {
      BOOST_TEST((all[rank].find(part) != std::string::npos),
                 "rank " << rank << ": " << all[rank] << "\n  lacks: " << part);
    }
  }
}

/// Runs a disagreement of two calls on 3 ranks; each rank's error must contain all of `parts`.
template <class Even, class Odd>
void check_disagreement(Even even, Odd odd, const std::vector<std::string>& parts) {
  for (const bool on_stream : {false, true}) {
    const auto all = mpi_test::outcomes(3, patient, [&](Comm& comm) {
      std::vector<float> a(64);
      std::vector<float> b(64);
      const auto call = [&](auto&... on) {
        if (comm.rank() % 2 == 0) {
          even(comm, a.data(), b.data(), on...);
        } else {
          odd(comm, a.data(), b.data(), on...);
        }
      };
      zero::HostDevice device({.mode = zero::StreamMode::asynchronous});
      zero::HostStream& stream = device.make_stream("comm");
      if (!on_stream) return call();
      call(stream);
      stream.synchronize();
    });
    check(all, {0, 1, 2}, "comm: ", parts);
  }
}

BOOST_AUTO_TEST_CASE(another_operation_or_unit_is_an_error_on_every_rank_that_names_both) {
  check_disagreement(
      [](Comm& comm, float* a, float* b, auto&... on) {
        comm.all_gather(on..., a, b, 4, {.unit = "block.3", .position = 17});
      },
      [](Comm& comm, float* a, float* b, auto&... on) {
        comm.reduce_scatter(on..., a, b, 4, {}, {.unit = "block.2", .position = 18});
      },
      {"ranks 0, 2 all_gather(4 x fp32) of unit block.3 at schedule position 17",
       "rank 1 reduce_scatter(4 x fp32) of unit block.2 at schedule position 18", " on rank ",
       "the same collectives in the same order"});
  check_disagreement(
      [](Comm& comm, float* a, float* b, auto&... on) {
        comm.all_gather(on..., a, b, 4, {.operation = "gather", .unit = "block.3"});
      },
      [](Comm& comm, float* a, float* b, auto&... on) {
        comm.all_gather(on..., a, b, 4, {.operation = "gather", .unit = "block.4"});
      },
      {"all_gather(4 x fp32) for gather of unit block.3", "for gather of unit block.4"});
}

// B116
BOOST_AUTO_TEST_CASE(another_count_type_root_reduction_or_position_is_an_error_on_every_rank) {
  check_disagreement(
      [](Comm& comm, float* a, float*, auto&... on) { comm.all_reduce(on..., a, 3); },
      [](Comm& comm, float* a, float*, auto&... on) { comm.all_reduce(on..., a, 0); },
      {"ranks 0, 2 all_reduce(3 x fp32)", "rank 1 all_reduce(0 x fp32)"});
  check_disagreement(
      [](Comm& comm, float* a, float*, auto&... on) { comm.broadcast(on..., a, 2, 0); },
      [](Comm& comm, float*, float*, auto&... on) {
        static double data[2];
        comm.broadcast(on..., data, 2, 1);
      },
      {"broadcast(2 x fp32, root 0)", "broadcast(2 x fp64, root 1)"});
  check_disagreement(
      [](Comm& comm, float* a, float*, auto&... on) { comm.all_reduce(on..., a, 2); },
      [](Comm& comm, float* a, float*, auto&... on) {
        comm.all_reduce(on..., a, 2, {}, zero::Reduction::average);
      },
      {"all_reduce(2 x fp32)", "all_reduce(2 x fp32, average)"});
  check_disagreement(
      [](Comm& comm, float*, float*, auto&... on) { comm.barrier(on..., {.position = 1}); },
      [](Comm& comm, float*, float*, auto&... on) { comm.barrier(on..., {.position = 2}); },
      {"barrier at schedule position 1", "barrier at schedule position 2"});
}

BOOST_AUTO_TEST_CASE(other_options_are_an_error_on_every_rank) {
  const std::size_t elements = mpi_test::rank() == 1 ? 100 : 200;
  const auto all = mpi_test::outcomes(3, {.message_elements = elements}, [](Comm&) {});
  check(all, {0, 1, 2}, "comm: ", {"message_elements is 200 on rank 0, but 100 on rank 1"});
}

BOOST_AUTO_TEST_CASE(a_rank_that_hangs_is_named_when_the_limit_is_over) {
  const auto begin = Clock::now();
  const auto all = mpi_test::outcomes(3, {.time_limit = limit}, [](Comm& comm) {
    if (comm.rank() == 2) std::this_thread::sleep_for(3 * limit);
    comm.barrier({.unit = "block.3", .position = 17});
  });
  BOOST_TEST((Clock::now() - begin < at_once));
  check(
      all, {0, 1, 2}, "timeout: ",
      {"barrier of unit block.3 at schedule position 17", "rank 2 did not call it within 500 ms"});
}

// B98. It is named at once, but the failure is that of a rank that says so.
BOOST_AUTO_TEST_CASE(a_rank_that_leaves_is_named_at_once) {
  const auto begin = Clock::now();
  const auto all = mpi_test::outcomes(4, patient, [](Comm& comm) {
    if (comm.rank() == 2) return;
    std::vector<float> data(4);
    comm.all_reduce(data.data(), 4, {.unit = "head", .position = 3});
  });
  BOOST_TEST((Clock::now() - begin < at_once));
  check(all, {0, 1, 3}, "comm: ",
        {"all_reduce(4 x fp32) of unit head at schedule position 3", "2 left the communicator"});
  check(all, {2}, "", {});
}

// B101
BOOST_AUTO_TEST_CASE(a_rank_with_one_batch_less_makes_the_other_fail_at_once) {
  const auto all = mpi_test::outcomes(2, patient, [](Comm& comm) {
    for (std::size_t batch = 0; batch < 3 - comm.rank(); ++batch) comm.barrier();
  });
  check(all, {0}, "comm: ", {"rank 1 left the communicator"});
  if (mpi_test::rank() == 0) BOOST_TEST(all[1] == "");
}

BOOST_AUTO_TEST_CASE(a_destroyed_part_of_a_split_makes_its_peers_fail_at_once) {
  const auto all = mpi_test::outcomes(4, patient, [](Comm& comm) {
    std::optional part = comm.split(static_cast<int>(comm.rank() / 2), 0);
    if (comm.rank() == 3) {
      part.reset();
      comm.barrier();
    } else {
      part->barrier({.unit = "part"});
      comm.barrier();
    }
  });
  check(all, {2}, "comm: ", {"barrier of unit part on rank 0 of 2: rank 1 left"});
  // The others cannot go on without rank 2 and are told why.
  check(all, {0, 1, 3}, "comm: ", {"rank 1 left"});
}

BOOST_AUTO_TEST_CASE(abort_from_any_thread_wakes_those_who_wait_in_any_communicator) {
  const auto begin = Clock::now();
  const auto all = mpi_test::outcomes(4, patient, [](Comm& comm) {
    const auto mesh = zero::mesh(comm, 2);
    if (comm.rank() == 0) {
      std::thread([&] {
        std::this_thread::sleep_for(50ms);
        comm.abort("stop");
      }).join();
      for (int i = 0; i < 2; ++i) {
        try {
          comm.barrier();
        } catch (const zero::CommunicatorError&) {}
      }
      return comm.barrier();
    }
    (comm.rank() == 1 ? mesh.shard : mesh.replicate).barrier();
    comm.barrier();
  });
  BOOST_TEST((Clock::now() - begin < at_once));
  check(all, {0, 1, 2, 3}, "comm: ", {"aborted on rank 0 of 4: stop"});
}

BOOST_AUTO_TEST_CASE(work_that_a_stream_drops_makes_the_peers_fail_at_once) {
  const auto all = mpi_test::outcomes(2, patient, [](Comm& comm) {
    float value = 1;
    zero::HostDevice device({.mode = zero::StreamMode::asynchronous});
    zero::HostStream& stream = device.make_stream("comm");
    if (comm.rank() == 0) stream.enqueue([] { throw std::runtime_error("disk full"); });
    comm.all_reduce(stream, &value, 1, {.unit = "embed"});
    stream.synchronize();
  });
  check(all, {0}, "other: disk full", {});
  check(all, {1}, "comm: ", {"of unit embed on rank 0 of 2 was dropped"});
}

BOOST_AUTO_TEST_CASE(a_turn_that_never_comes_is_explained) {
  const auto all = mpi_test::outcomes(1, {.time_limit = limit}, [](Comm& comm) {
    zero::HostDevice device({.mode = zero::StreamMode::shuffled});
    comm.barrier(device.make_stream("comm"));
    comm.barrier({.unit = "late"});
  });
  check(all, {0}, "timeout: ", {"barrier of unit late on rank 0 of 1: its turn did not come"});
}

// The sanitizers see it if MPI reads or writes what its owner has freed.
BOOST_AUTO_TEST_CASE(buffers_may_be_freed_as_soon_as_an_error_is_thrown) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto all = mpi_test::outcomes(3, patient, [&](Comm& comm) {
      auto data = std::make_unique<std::vector<float>>(200'000, 1.0F);
      const std::string unit = "a unit whose name is on the heap";
      std::thread abort;
      if (comm.rank() == 0) {
        abort = std::thread([comm, repeat] {
          std::this_thread::sleep_for(std::chrono::microseconds(70 * repeat));
          comm.abort("stop");
        });
      }
      try {
        for (;;) comm.all_reduce(data->data(), data->size(), {.unit = unit});
      } catch (...) {
        data.reset();
        if (abort.joinable()) abort.join();
        throw;
      }
    });
    check(all, {0, 1, 2}, "comm: ", {"stop"});
  }
}

BOOST_AUTO_TEST_CASE(a_rank_that_does_not_make_the_communicator_is_missed_in_time) {
  MPI_Comm own = MPI_COMM_NULL;  // what is left unfinished stays within it
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  std::string mine;
  if (mpi_test::rank() != 3) {
    try {
      const Comm comm(own, {.time_limit = limit});
    } catch (const zero::TimeoutError& error) { mine = std::string("timeout: ") + error.what(); }
  }
  check(mpi_test::all_of(mine), {0, 1, 2}, "timeout: ", {"not all ranks", "within 500 ms"});
}

// On whatever communicators: what a rank has heard of the others is what they did with it.
BOOST_AUTO_TEST_CASE(an_error_shows_what_every_rank_did_last) {
  const auto all = mpi_test::outcomes(4, patient, [](Comm& comm) {
    const auto pair = comm.split(static_cast<int>(comm.rank() / 2), 0);
    float data[2] = {};
    pair.all_reduce(data, 1, {"a sum", "pair", 5, 2});
    if (comm.rank() != 3) comm.all_reduce(data, 2, {"the total", "all", 6});
    if (comm.rank() == 3) comm.barrier({"a pause", "all", 7});
  });
  check(all, {0, 1, 2, 3},
        "comm: ", {"\nLast operations, the latest at the end:\n  rank 0: MpiCommunicator, split"});
  check(all, {2}, "comm: ",
        {"\n  rank 2: MpiCommunicator, split, a sum of pair at 5 in micro-step 2, the total of all",
         "\n  rank 3: MpiCommunicator, split, a sum of pair at 5 in micro-step 2"});
  check(all, {3}, "comm: ",
        {"\n  rank 3: MpiCommunicator, split, a sum of pair at 5 in micro-step 2, a pause of all"});
}

BOOST_AUTO_TEST_CASE(what_no_communicator_can_be_made_of_is_refused) {
  BOOST_CHECK_EXCEPTION(Comm(MPI_COMM_NULL), zero::ContractError, [](const auto& error) {
    return std::string(error.what()).find("MPI_COMM_NULL") != std::string::npos;
  });
  for (const zero::MpiOptions options :
       {zero::MpiOptions{.time_limit = 0ms}, zero::MpiOptions{.message_elements = 0},
        zero::MpiOptions{.message_elements = std::size_t{1} << 31}}) {
    BOOST_CHECK_THROW(Comm(MPI_COMM_WORLD, options), zero::ContractError);
  }
}

BOOST_AUTO_TEST_SUITE_END()
