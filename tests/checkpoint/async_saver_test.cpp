// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "held.hpp"
#include "memory_files.hpp"

BOOST_AUTO_TEST_SUITE(async_saver_test)

using files::FaultyFiles;
using files::MemoryFiles;
using namespace std::chrono_literals;

/// Files of which each call takes a while.
FaultyFiles slow(MemoryFiles& disk, std::chrono::milliseconds time) {
  return {disk, [time](std::size_t, const std::string&, std::int64_t&) {
            std::this_thread::sleep_for(time);
            return false;
          }};
}

BOOST_AUTO_TEST_CASE(what_is_saved_is_what_was_held_when_the_save_began) {
  MemoryFiles disk;
  FaultyFiles files = slow(disk, 1ms);
  for (const std::size_t replicas : {1, 2}) {
    std::vector<std::string> paths(4);
    held::on_ranks(4, replicas, held::odd_tensors(),
                   [&](held::Holder& holder, zero::ThreadCommunicator& comm) {
                     zero::AsyncSaver saver(comm);
                     if (!saver.wait().empty()) throw zero::Error("nothing was saved yet");
                     for (const std::int64_t version : {1, 2, 3}) {
                       holder.fill(version);
                       saver.save(holder.state, "runs", {.files = &files});
                       holder.fill(77);
                     }
                     paths[comm.rank()] = saver.wait();
                   });
    for (const std::string& path : paths) BOOST_TEST(path == "runs/step-3");
    for (const std::int64_t version : {1, 2, 3}) {
      BOOST_TEST(held::load("runs/step-" + std::to_string(version), {.files = &disk}) == version);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_error_comes_from_the_next_save_or_wait_on_all_ranks) {
  MemoryFiles disk;
  held::save(2, 1, 1, "runs", {.files = &disk});
  for (const bool at_wait : {true, false}) {
    FaultyFiles broken(disk, [](std::size_t, const std::string& name, std::int64_t& result) {
      result = -ENOSPC;
      return name == "write";
    });
    std::vector<std::string> errors(2);
    std::vector<char> works(2);
    held::on_ranks(2, 1, held::odd_tensors(),
                   [&](held::Holder& holder, zero::ThreadCommunicator& comm) {
                     zero::AsyncSaver saver(comm);
                     saver.save(holder.fill(2).state, "runs", {.files = &broken});
                     errors[comm.rank()] = held::error_of([&] {
                       if (at_wait) saver.wait();
                       saver.save(holder.fill(3).state, "runs", {.files = &disk});
                     });
                     saver.save(holder.fill(4).state, "runs", {.files = &disk});
                     works[comm.rank()] = saver.wait() == "runs/step-4";
                   });
    for (const std::string& error : errors) {
      BOOST_TEST(held::says(error, {"CheckpointError", "write", "No space"}), error);
    }
    BOOST_TEST((works[0] && works[1]));
    BOOST_TEST(held::load("runs/step-1", {.files = &disk}) == 1);
    BOOST_TEST(held::load("runs", {.files = &disk}) == 4);
  }
}

BOOST_AUTO_TEST_CASE(replicas_are_compared_as_they_were) {
  MemoryFiles disk;
  std::vector<std::string> errors(2);
  held::on_ranks(
      2, 2, held::odd_tensors(), [&](held::Holder& holder, zero::ThreadCommunicator& comm) {
        zero::AsyncSaver saver(comm);
        holder.fill(1);
        float& number = *static_cast<float*>(holder.state.tensors[1].parts[0].ranges[0].data);
        if (comm.rank() == 1) number += 1;
        saver.save(holder.state, "runs", {.files = &disk});
        holder.fill(1);
        errors[comm.rank()] = held::error_of([&] { saver.wait(); });
      });
  for (const std::string& error : errors) BOOST_TEST(held::says(error, {"'b'", "differs"}), error);
}

BOOST_AUTO_TEST_CASE(progress_is_told_up_to_the_end) {
  MemoryFiles disk;
  std::vector<std::vector<std::uint64_t>> told(2);
  held::on_ranks(2, 1, held::odd_tensors(),
                 [&](held::Holder& holder, zero::ThreadCommunicator& comm) {
                   zero::SaveOptions options{.files = &disk};
                   options.progress = [&](std::uint64_t done, std::uint64_t all) {
                     told[comm.rank()].push_back(done);
                     if (done == all) told[comm.rank()].push_back(0);
                   };
                   zero::AsyncSaver saver(comm);
                   saver.save(holder.fill(1).state, "runs", options);
                   saver.wait();
                 });
  for (const auto& values : told) {
    BOOST_REQUIRE(values.size() > 3);
    for (std::size_t i = 1; i + 1 < values.size(); ++i) BOOST_TEST(values[i - 1] < values[i]);
    BOOST_TEST(values.back() == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_rank_may_take_longer_than_the_time_limit_of_its_communicator) {
  MemoryFiles disk;
  FaultyFiles files = slow(disk, 300ms);
  zero::run_threads(2,
                    [&](zero::ThreadCommunicator& comm) {
                      held::Holder holder(held::odd_tensors(), 2, comm.rank());
                      zero::save(
                          holder.fill(1).state, comm, "runs",
                          {.files = comm.rank() == 1 ? static_cast<zero::Files*>(&files) : &disk});
                    },
                    {.time_limit = 800ms});
  BOOST_TEST(held::load("runs", {.files = &disk}) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
