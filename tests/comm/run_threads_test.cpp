// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <zero/comm/run_threads.hpp>

BOOST_AUTO_TEST_SUITE(run_threads_test)

using namespace std::chrono_literals;
using Comm = zero::ThreadCommunicator;
constexpr zero::ThreadOptions patient = {.time_limit = 100s};

struct Own : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Counts what is alive.
struct Alive {
  explicit Alive(std::atomic<int>& all) : count(all) { ++count; }
  ~Alive() { --count; }
  Alive(const Alive&) = delete;
  Alive& operator=(const Alive&) = delete;
  std::atomic<int>& count;
};

BOOST_AUTO_TEST_CASE(each_rank_runs_once_on_a_thread_of_its_own) {
  std::vector<std::thread::id> ids(5);
  std::vector<std::size_t> sizes(5);
  zero::run_threads(5, [&](Comm& comm) {
    ids[comm.rank()] = std::this_thread::get_id();
    sizes[comm.rank()] = comm.size();
  });
  ids.push_back(std::this_thread::get_id());
  BOOST_TEST(std::set(ids.begin(), ids.end()).size() == 6U);
  BOOST_TEST((sizes == std::vector<std::size_t>(5, 5)));
}

BOOST_AUTO_TEST_CASE(no_ranks_are_refused) {
  BOOST_CHECK_THROW(zero::run_threads(0, [](Comm&) {}), zero::ContractError);
}

BOOST_AUTO_TEST_CASE(the_exception_of_one_rank_is_the_one_that_is_thrown_again) {
  for (std::size_t guilty = 0; guilty < 4; ++guilty) {
    std::atomic<int> alive{0};
    std::vector<std::string> seen(4);
    try {
      zero::run_threads(
          4,
          [&](Comm& comm) {
            const Alive guard(alive);
            comm.barrier();
            if (comm.rank() == guilty) throw Own("no more memory");
            try {
              comm.barrier({.unit = "block.1"});
            } catch (const zero::CommunicatorError& error) {
              seen[comm.rank()] = error.what();
              throw;
            }
          },
          patient);
      BOOST_TEST(false);
    } catch (const Own& error) { BOOST_TEST(error.what() == std::string("no more memory")); }
    BOOST_TEST(alive == 0);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      const bool named = seen[rank].find("barrier of unit block.1") != std::string::npos &&
                         seen[rank].find("no more memory") != std::string::npos;
      BOOST_TEST((rank == guilty || named), seen[rank]);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_error_that_a_rank_made_of_another_ranks_error_is_not_the_cause) {
  try {
    zero::run_threads(
        2,
        [](Comm& comm) {
          if (comm.rank() == 0) throw Own("cause");
          try {
            comm.barrier();
          } catch (const std::exception& error) { throw std::logic_error(error.what()); }
        },
        patient);
    BOOST_TEST(false);
  } catch (const std::exception& error) { BOOST_TEST(error.what() == std::string("cause")); }
}

BOOST_AUTO_TEST_CASE(disagreement_of_the_ranks_is_thrown_as_such) {
  BOOST_CHECK_THROW(zero::run_threads(
                        3,
                        [](Comm& comm) {
                          float value = 0;
                          comm.rank() == 1 ? comm.barrier() : comm.all_reduce(&value, 1);
                        },
                        patient),
                    zero::CommunicatorError);
}

BOOST_AUTO_TEST_CASE(a_late_rank_is_thrown_as_a_timeout) {
  BOOST_CHECK_THROW(zero::run_threads(2,
                                      [](Comm& comm) {
                                        if (comm.rank() == 1) std::this_thread::sleep_for(600ms);
                                        comm.barrier();
                                      },
                                      {.time_limit = 200ms}),
                    zero::TimeoutError);
}

BOOST_AUTO_TEST_CASE(anything_may_be_thrown) {
  BOOST_CHECK_THROW(zero::run_threads(
                        2,
                        [](Comm& comm) {
                          if (comm.rank() == 1) throw 7;
                          comm.barrier();
                        },
                        patient),
                    int);
}

BOOST_AUTO_TEST_CASE(a_rank_that_throws_with_work_on_its_streams_makes_nobody_wait) {
  for (const auto mode : {zero::StreamMode::asynchronous, zero::StreamMode::shuffled}) {
    BOOST_CHECK_THROW(zero::run_threads(
                          3,
                          [&](Comm& comm) {
                            float value = 1;
                            zero::HostDevice device({.mode = mode});
                            zero::HostStream& stream = device.make_stream("comm");
                            if (comm.rank() != 1) comm.all_reduce(stream, &value, 1);
                            if (comm.rank() == 2) throw Own("cause");
                            if (comm.rank() == 1) comm.all_reduce(&value, 1);
                            stream.synchronize();
                          },
                          patient),
                      Own);
  }
}

BOOST_AUTO_TEST_SUITE_END()
