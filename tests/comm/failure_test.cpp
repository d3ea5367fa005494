// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What ranks learn when one of them does something else, hangs, leaves or fails.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zero/comm/mesh.hpp>
#include <zero/comm/run_threads.hpp>

BOOST_AUTO_TEST_SUITE(failure_test)

using namespace std::chrono_literals;
using Comm = zero::ThreadCommunicator;
using Clock = std::chrono::steady_clock;

constexpr auto limit = 200ms;
// Far above what an error needs at once, far below the limit that it would need otherwise.
constexpr zero::ThreadOptions patient = {.time_limit = 100s};
constexpr auto at_once = 20s;

struct Outcome {
  std::string error;  // empty: none
  bool timeout = false;
  bool communicator_error = false;
};

/// What each of the ranks caught in f.
template <class F>
std::vector<Outcome> outcomes(std::size_t ranks, zero::ThreadOptions options, F f) {
  std::vector<Outcome> all(ranks);
  zero::run_threads(
      ranks,
      [&](Comm& comm) {
        Outcome& mine = all[comm.rank()];
        try {
          f(comm);
        } catch (const zero::CommunicatorError& error) {
          mine = {error.what(), dynamic_cast<const zero::TimeoutError*>(&error) != nullptr, true};
        } catch (const std::exception& error) { mine = {error.what(), false, false}; }
      },
      options);
  return all;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Runs a disagreement of two calls on 3 ranks; each rank's error must contain all of `parts`.
template <class Even, class Odd>
void check_disagreement(Even even, Odd odd, const std::vector<std::string>& parts) {
  for (const bool on_stream : {false, true}) {
    const auto all = outcomes(3, patient, [&](Comm& comm) {
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
    for (const Outcome& outcome : all) {
      BOOST_TEST(outcome.communicator_error);
      BOOST_TEST(!outcome.timeout);
      for (const std::string& part : parts) {
        BOOST_TEST(contains(outcome.error, part), outcome.error << "\n  lacks: " << part);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(another_operation_is_an_error_on_every_rank_that_names_both) {
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
}

BOOST_AUTO_TEST_CASE(another_count_is_an_error_on_every_rank) {
  check_disagreement(
      [](Comm& comm, float* a, float*, auto&... on) { comm.all_reduce(on..., a, 3); },
      [](Comm& comm, float* a, float*, auto&... on) { comm.all_reduce(on..., a, 0); },
      {"ranks 0, 2 all_reduce(3 x fp32)", "rank 1 all_reduce(0 x fp32)"});
}

BOOST_AUTO_TEST_CASE(another_type_is_an_error_on_every_rank) {
  check_disagreement(
      [](Comm& comm, float* a, float*, auto&... on) { comm.broadcast(on..., a, 2, 0); },
      [](Comm& comm, float*, float*, auto&... on) {
        static thread_local double data[2];
        comm.broadcast(on..., data, 2, 0);
      },
      {"broadcast(2 x fp32, root 0)", "broadcast(2 x fp64, root 0)"});
}

BOOST_AUTO_TEST_CASE(another_root_is_an_error_on_every_rank) {
  check_disagreement(
      [](Comm& comm, float* a, float*, auto&... on) { comm.broadcast(on..., a, 2, 0); },
      [](Comm& comm, float* a, float*, auto&... on) { comm.broadcast(on..., a, 2, 1); },
      {"broadcast(2 x fp32, root 0)", "broadcast(2 x fp32, root 1)"});
}

BOOST_AUTO_TEST_CASE(another_reduction_is_an_error_on_every_rank) {
  check_disagreement(
      [](Comm& comm, float* a, float*, auto&... on) { comm.all_reduce(on..., a, 2); },
      [](Comm& comm, float* a, float*, auto&... on) {
        comm.all_reduce(on..., a, 2, {}, zero::Reduction::average);
      },
      {"all_reduce(2 x fp32)", "all_reduce(2 x fp32, average)"});
}

BOOST_AUTO_TEST_CASE(another_unit_is_an_error_on_every_rank) {
  check_disagreement(
      [](Comm& comm, float* a, float* b, auto&... on) {
        comm.all_gather(on..., a, b, 4, {.operation = "gather", .unit = "block.3"});
      },
      [](Comm& comm, float* a, float* b, auto&... on) {
        comm.all_gather(on..., a, b, 4, {.operation = "gather", .unit = "block.4"});
      },
      {"all_gather(4 x fp32) for gather of unit block.3", "for gather of unit block.4"});
}

BOOST_AUTO_TEST_CASE(a_rank_that_hangs_is_named_when_the_limit_is_over) {
  const auto begin = Clock::now();
  const auto all = outcomes(3, {.time_limit = limit}, [](Comm& comm) {
    if (comm.rank() == 2) std::this_thread::sleep_for(3 * limit);
    comm.barrier({.unit = "block.3", .position = 17});
  });
  BOOST_TEST((Clock::now() - begin < at_once));
  for (const Outcome& outcome : all) {
    BOOST_TEST(outcome.timeout);
    BOOST_TEST(contains(outcome.error, "barrier of unit block.3 at schedule position 17"));
    BOOST_TEST(contains(outcome.error, "rank 2 did not call it within 200 ms"), outcome.error);
  }
}

BOOST_AUTO_TEST_CASE(a_rank_that_leaves_is_named_at_once) {
  const auto begin = Clock::now();
  const auto all = outcomes(4, patient, [](Comm& comm) {
    if (comm.rank() == 2) return;
    std::vector<float> data(4);
    comm.all_reduce(data.data(), 4, {.unit = "head", .position = 3});
  });
  BOOST_TEST((Clock::now() - begin < at_once));
  for (const std::size_t rank : {0U, 1U, 3U}) {
    const std::string& error = all[rank].error;
    BOOST_TEST(all[rank].communicator_error);
    BOOST_TEST(contains(error, "all_reduce(4 x fp32) of unit head at schedule position 3"));
    BOOST_TEST((contains(error, "rank 2 left") || contains(error, ", 2 left")), error);
  }
}

BOOST_AUTO_TEST_CASE(only_one_rank_uses_a_unit_and_both_learn_its_name) {
  const auto all = outcomes(2, patient, [](Comm& comm) {
    const float mine = 4;
    std::vector<float> data(2);
    if (comm.rank() == 0) comm.all_gather(&mine, data.data(), 1, {.unit = "B"});
    comm.all_gather(&mine, data.data(), 1, {.unit = "C"});
    if (comm.rank() == 1) comm.barrier();
  });
  for (const Outcome& outcome : all) BOOST_TEST(contains(outcome.error, "of unit B"));
}

BOOST_AUTO_TEST_CASE(a_rank_with_one_batch_less_makes_the_other_fail_at_once) {
  const auto all = outcomes(2, patient, [](Comm& comm) {
    for (std::size_t batch = 0; batch < 3 - comm.rank(); ++batch) comm.barrier();
  });
  BOOST_TEST(contains(all[0].error, "rank 1 left the communicator"), all[0].error);
  BOOST_TEST(all[1].error == "");
}

BOOST_AUTO_TEST_CASE(a_destroyed_part_of_a_split_makes_its_peers_fail_at_once) {
  const auto all = outcomes(4, patient, [](Comm& comm) {
    std::optional part = comm.split(static_cast<int>(comm.rank() / 2), 0);
    if (comm.rank() == 3) {
      part.reset();
      comm.barrier();
    } else {
      part->barrier({.unit = "part"});
      comm.barrier();
    }
  });
  BOOST_TEST(contains(all[2].error, "barrier of unit part on rank 0 of 2: rank 1 left"));
  // The others cannot go on without rank 2 and are told why.
  for (const std::size_t rank : {0U, 1U, 3U}) BOOST_TEST(contains(all[rank].error, "rank 1 left"));
}

BOOST_AUTO_TEST_CASE(abort_from_any_thread_wakes_those_who_sleep_in_any_communicator) {
  const auto begin = Clock::now();
  const auto all = outcomes(4, patient, [](Comm& comm) {
    const auto mesh = zero::mesh(comm, 2);
    if (comm.rank() == 0) {
      std::thread([&] {
        std::this_thread::sleep_for(50ms);
        comm.abort("stop");
      }).join();
      return;
    }
    (comm.rank() == 1 ? mesh.shard : mesh.replicate).barrier();
    comm.barrier();
  });
  BOOST_TEST((Clock::now() - begin < at_once));
  for (std::size_t rank = 1; rank < 4; ++rank) {
    BOOST_TEST(contains(all[rank].error, "aborted on rank 0 of 4: stop"), all[rank].error);
  }
}

BOOST_AUTO_TEST_CASE(work_that_a_stream_drops_makes_the_peers_fail_at_once) {
  const auto all = outcomes(2, patient, [](Comm& comm) {
    float value = 1;
    zero::HostDevice device({.mode = zero::StreamMode::asynchronous});
    zero::HostStream& stream = device.make_stream("comm");
    if (comm.rank() == 0) stream.enqueue([] { throw std::runtime_error("disk full"); });
    comm.all_reduce(stream, &value, 1, {.unit = "embed"});
    stream.synchronize();
  });
  BOOST_TEST(all[0].error == "disk full");
  BOOST_TEST(contains(all[1].error, "of unit embed on rank 0 of 2 was dropped"), all[1].error);
}

BOOST_AUTO_TEST_CASE(a_device_may_be_destroyed_with_a_collective_that_waits) {
  const auto begin = Clock::now();
  const auto all = outcomes(2, patient, [](Comm& comm) {
    std::vector<float> data(1000, 1);
    if (comm.rank() == 0) {
      zero::HostDevice device({.mode = zero::StreamMode::asynchronous});
      comm.all_reduce(device.make_stream("comm"), data.data(), data.size());
      std::this_thread::sleep_for(20ms);
      return;
    }
    comm.barrier();
    comm.all_reduce(data.data(), data.size());
  });
  BOOST_TEST((Clock::now() - begin < at_once));
  BOOST_TEST(all[0].error == "");
  BOOST_TEST(all[1].communicator_error);
}

BOOST_AUTO_TEST_CASE(a_turn_that_never_comes_is_explained) {
  const auto all = outcomes(1, {.time_limit = limit}, [](Comm& comm) {
    zero::HostDevice device({.mode = zero::StreamMode::shuffled});
    comm.barrier(device.make_stream("comm"));
    comm.barrier({.unit = "late"});
  });
  BOOST_TEST(contains(all[0].error, "barrier of unit late on rank 0 of 1: its turn did not come"));
  BOOST_TEST(contains(all[0].error, "Synchronise that stream first"));
}

BOOST_AUTO_TEST_CASE(a_rank_that_sleeps_is_woken_when_its_peers_come) {
  const auto begin = Clock::now();
  const auto all = outcomes(2, patient, [](Comm& comm) {
    for (std::size_t turn = 0; turn < 6; ++turn) {
      if (comm.rank() == turn % 2) std::this_thread::sleep_for(20ms);
      comm.barrier();
    }
  });
  BOOST_TEST((Clock::now() - begin < at_once));
  for (const Outcome& outcome : all) BOOST_TEST(outcome.error == "");
}

BOOST_AUTO_TEST_CASE(buffers_may_be_freed_as_soon_as_an_error_is_thrown) {
  // The sanitizers see a peer that reads or writes what its owner has freed.
  for (int repeat = 0; repeat < 100; ++repeat) {
    const auto all = outcomes(3, patient, [&](Comm& comm) {
      std::vector<float> data(20'000, 1);
      std::string unit = "a unit whose name is on the heap";
      std::thread abort;
      if (comm.rank() == 0) {
        abort = std::thread([comm, repeat] {
          std::this_thread::sleep_for(std::chrono::microseconds(7 * repeat));
          comm.abort("stop");
        });
      }
      try {
        for (;;) comm.all_reduce(data.data(), data.size(), {.unit = unit});
      } catch (...) {
        if (abort.joinable()) abort.join();
        throw;
      }
    });
    for (const Outcome& outcome : all) BOOST_TEST(contains(outcome.error, "stop"));
  }
}

BOOST_AUTO_TEST_CASE(nothing_ends_the_process_when_it_is_aborted_destroyed_or_moved_from) {
  auto all = Comm::make(2);
  Comm moved = std::move(all[0]);
  all[0].abort("moved from: nothing happens");
  for (const std::function<void()>& use : std::initializer_list<std::function<void()>>{
           [&] { (void)all[0].rank(); }, [&] { (void)all[0].size(); }, [&] { (void)all[0].sent(); },
           [&] { all[0].barrier(); }, [&] { (void)all[0].split(0, 0); },
           [&] { (void)zero::mesh(all[0]); }}) {
    BOOST_CHECK_EXCEPTION(use(), zero::ContractError, [](const zero::ContractError& error) {
      return contains(error.what(), "moved from");
    });
  }
  try {
    const Comm dies_while_an_exception_is_in_flight = moved;
    moved.abort("once");
    moved.abort("twice");
    moved.barrier();
    BOOST_TEST(false);
  } catch (const zero::CommunicatorError& error) {
    BOOST_TEST(contains(error.what(), "aborted on rank 0 of 2: once"), error.what());
  }
  moved.abort("thrice");
  all.clear();
  moved.abort("alone");
}

BOOST_AUTO_TEST_SUITE_END()
