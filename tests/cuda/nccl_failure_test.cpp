// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What ranks over NCCL learn when one of them hangs, leaves or fails. Each needs devices for all
// ranks.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zero/comm/mesh.hpp>
#include <zero/cuda.hpp>

#include "place.hpp"
#include "ranks.hpp"

BOOST_AUTO_TEST_SUITE(nccl_failure_test)

using namespace std::chrono_literals;
using cuda_tests::contains;
using cuda_tests::OnDevice;
using cuda_tests::Outcome;
using cuda_tests::too_few_devices;
using zero::NcclCommunicator;
using zero::NcclOptions;
using Clock = std::chrono::steady_clock;

// Several waits of one rank may come to their limit one after the other.
constexpr auto limit = 200ms;
constexpr auto soon = 10s;
const NcclOptions hasty = {.time_limit = limit};

/// Calls f as each rank, and expects that the ranks but `lost` end with a TimeoutError in time,
/// which contains all of `parts`.
template <class F>
void check_late(std::size_t ranks, std::size_t lost, const NcclOptions& options, const F& f,
                const std::vector<std::string>& parts) {
  const auto begin = Clock::now();
  const std::vector<Outcome> all = cuda_tests::outcomes(ranks, options, f);
  BOOST_TEST((Clock::now() - begin < soon));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (rank == lost) continue;
    BOOST_TEST(all[rank].timeout, all[rank].error);
    for (const std::string& part : parts) {
      BOOST_TEST(contains(all[rank].error, part), all[rank].error << "\n  lacks: " << part);
    }
  }
}

// B98
BOOST_AUTO_TEST_CASE(a_rank_that_leaves_is_a_timeout_that_names_operation_unit_and_position) {
  if (too_few_devices(3)) return;
  const auto body = [](NcclCommunicator& comm) {
    zero::CudaDevice device({.time_limit = limit});
    zero::CudaStream& stream = device.make_stream("gather");
    OnDevice<float> data(64, 1);
    comm.all_reduce(stream, data.data(), 4, {.unit = "embed", .position = 3});
    stream.synchronize();
    if (comm.rank() == 2) return;
    comm.all_reduce(stream, data.data(), 4,
                    {.operation = "reduce", .unit = "block.3", .position = 17, .micro_step = 1});
    comm.all_reduce(stream, data.data(), 64, {.unit = "head", .position = 19});
    stream.synchronize();
  };
  check_late(3, 2, hasty, body,
             {"all_reduce(4 x fp32) for reduce of unit block.3 at schedule position 17 in "
              "micro-step 1 on rank ",
              " of 3 did not end within 200 ms", "stream 'gather'", "Last operations of this rank",
              "all_reduce of embed at 3, reduce of block.3 at 17 in micro-step 1 (not done), "
              "all_reduce of head at 19 (not done)",
              "time_limit"});
}

BOOST_AUTO_TEST_CASE(ranks_that_share_a_board_name_who_is_missing) {
  if (too_few_devices(3)) return;
  const zero::NcclBoard board(3);
  NcclOptions options = hasty;
  options.board = &board;
  const auto body = [](NcclCommunicator& comm) {
    float value = 1;
    comm.all_reduce(&value, 1);
    if (comm.rank() == 1) return;
    comm.all_reduce(&value, 1, {.unit = "block.3", .position = 17});
  };
  check_late(3, 1, options, body,
             {"all_reduce(1 x fp32) of unit block.3 at schedule position 17 on rank ",
              "rank 1 issued less than others", "\n  rank 1: all_reduce\n", "\n  rank 2: "});
}

BOOST_AUTO_TEST_CASE(the_first_of_many_that_wait_is_named) {
  if (too_few_devices(2)) return;
  const auto body = [](NcclCommunicator& comm) {
    if (comm.rank() == 1) return;
    zero::CudaDevice device({.time_limit = limit});
    zero::CudaStream& gather = device.make_stream("gather");
    zero::CudaStream& compute = device.make_stream("compute");
    zero::CudaEvent event;
    OnDevice<float> data(1, 1);
    for (std::uint32_t i = 0; i < 100; ++i) {
      comm.all_reduce(gather, data.data(), 1, {.unit = "block", .position = i});
    }
    gather.record(event);
    compute.wait(event);
    event.synchronize();
  };
  check_late(2, 1, hasty, body, {"of unit block at schedule position 0 on rank 0"});
}

BOOST_AUTO_TEST_CASE(the_collective_of_a_replayed_graph_that_waits_is_named) {
  if (too_few_devices(2)) return;
  const auto body = [](NcclCommunicator& comm) {
    const auto other = comm.split(0, 0);
    zero::CudaDevice device({.time_limit = limit});
    zero::CudaStream& stream = device.make_stream("a");
    OnDevice<float> data(8, 1);
    const auto captured = [&](const auto& step) {
      zero::CudaCapture capture(stream, {});
      step();
      return capture.end();
    };
    zero::CudaGraph first = captured([&] {
      comm.all_reduce(stream, data.data(), 1, {.unit = "embed", .position = 1});
      other.all_reduce(stream, data.data(), 2, {.unit = "block.0", .position = 2});
      comm.grouped([&] {
        comm.all_reduce(stream, data.data(), 3, {.unit = "block.1", .position = 3});
        comm.all_reduce(stream, data.data(), 4, {.unit = "block.2", .position = 4});
      });
      other.all_reduce(stream, data.data(), 5, {.unit = "head", .position = 5});
    });
    zero::CudaGraph second =
        captured([&] { comm.all_reduce(stream, data.data(), 6, {.unit = "norm", .position = 6}); });
    for (int replay = 0; replay < 2; ++replay) {
      first.launch(stream);
      second.launch(stream);
      stream.synchronize();
    }
    if (comm.rank() == 1) {
      comm.all_reduce(stream, data.data(), 1, {.unit = "embed", .position = 1});
      stream.synchronize();
      return;
    }
    first.launch(stream);
    stream.synchronize();
  };
  check_late(2, 1, hasty, body,
             {"all_reduce(3 x fp32) of unit block.1 at schedule position 3 on rank 0 of 2 in a "
              "graph, or all_reduce(2 x fp32) of unit block.0 at schedule position 2 on rank 0 of "
              "2 in a graph did not end within 200 ms"});
}

BOOST_AUTO_TEST_CASE(a_rank_that_does_not_come_to_the_making_is_a_timeout) {
  if (too_few_devices(3)) return;
  const ncclUniqueId id = zero::nccl_unique_id();
  const auto all = cuda_tests::on_threads(3, [&](std::size_t rank) {
    if (rank == 1) return;
    NcclCommunicator::make(id, rank, 3, hasty);
  });
  for (const std::size_t rank : {0U, 2U}) {
    BOOST_TEST(all[rank].timeout);
    BOOST_TEST(contains(all[rank].error, "on rank " + std::to_string(rank) +
                                             " of 3: ncclCommInitRankConfig did not end within"));
  }
  check_late(2, 0, hasty,
             [](NcclCommunicator& comm) {
               if (comm.rank() == 1) comm.split(0, 0);
             },
             {"split on rank 1 of 2: ncclCommSplit did not end within 200 ms"});
}

// B96: a world, replicas and shards, and each rank waits in another one.
BOOST_AUTO_TEST_CASE(all_communicators_of_a_rank_end_together) {
  if (too_few_devices(4)) return;
  for (const bool one_stream : {false, true}) {
    const auto body = [&](NcclCommunicator& comm) {
      const auto mesh = zero::mesh(comm, 2);
      zero::CudaDevice device({.time_limit = limit});
      zero::CudaStream& a = device.make_stream("a");
      zero::CudaStream& b = one_stream ? a : device.make_stream("b");
      OnDevice<float> data(3, 1);
      device.synchronize();
      if (comm.rank() == 3) return;
      mesh.shard.all_reduce(a, data.data(), 1, {.unit = "shard"});
      mesh.replicate.all_reduce(b, data.data() + 1, 1, {.unit = "replicate"});
      comm.all_reduce(a, data.data() + 2, 1, {.unit = "world"});
      device.synchronize();
    };
    check_late(4, 3, hasty, body, {" of unit ", "did not end within 200 ms"});
  }
}

BOOST_AUTO_TEST_CASE(an_abort_by_another_thread_wakes_who_waits) {
  if (too_few_devices(2)) return;
  const auto begin = Clock::now();
  const auto all = cuda_tests::outcomes(2, {}, [](NcclCommunicator& comm) {
    const auto part = comm.split(0, 0);
    zero::CudaDevice device;
    zero::CudaStream& stream = device.make_stream("a");
    OnDevice<float> data(1, 1);
    std::thread other([comm] {
      std::this_thread::sleep_for(30ms);
      comm.abort("the disk is full");
      comm.abort("again");
    });
    try {
      if (comm.rank() == 0) part.all_reduce(stream, data.data(), 1, {.unit = "head"});
      stream.synchronize();
      if (comm.rank() == 1) other.join();
      comm.barrier();
    } catch (...) {
      if (other.joinable()) other.join();
      throw;
    }
  });
  BOOST_TEST((Clock::now() - begin < soon));
  for (std::size_t rank = 0; rank < 2; ++rank) {
    BOOST_TEST(all[rank].communicator_error);
    BOOST_TEST(!all[rank].timeout);
    BOOST_TEST(contains(all[rank].error, "failed: aborted on rank " + std::to_string(rank) +
                                             " of 2: the disk is full"),
               all[rank].error);
  }
  BOOST_TEST(contains(all[0].error, "all_reduce(1 x fp32) of unit head on rank 0 of 2 failed"));
}

BOOST_AUTO_TEST_CASE(a_failure_is_on_all_ranks_that_share_a_board_at_once) {
  if (too_few_devices(3)) return;
  const zero::NcclBoard board(3);
  const auto begin = Clock::now();
  const auto all = cuda_tests::outcomes(3, {.board = &board}, [](NcclCommunicator& comm) {
    comm.barrier();
    try {
      if (comm.rank() == 1) throw zero::DeviceError("out of paper");
      comm.barrier({.unit = "block.3", .position = 17});
    } catch (const std::exception& error) {
      comm.abort(error.what());
      throw;
    }
  });
  BOOST_TEST((Clock::now() - begin < soon));
  BOOST_TEST(all[1].error == "out of paper");
  for (const std::size_t rank : {0U, 2U}) {
    BOOST_TEST(contains(all[rank].error, "aborted on rank 1 of 3: out of paper"));
  }
}

// B97
BOOST_AUTO_TEST_CASE(nothing_ends_the_process_when_it_is_aborted_destroyed_or_moved_from) {
  const auto all = cuda_tests::outcomes(1, {}, [](NcclCommunicator& comm) {
    NcclCommunicator moved = std::move(comm);
    comm.abort("moved from: nothing happens");
    try {
      const NcclCommunicator dies_while_an_exception_is_in_flight = moved.split(0, 0);
      moved.abort("once");
      moved.abort("twice");
      moved.barrier();
    } catch (const zero::CommunicatorError&) {
      moved.abort("thrice");
      throw;
    }
  });
  BOOST_TEST(contains(all[0].error, "aborted on rank 0 of 1: once"));
}

BOOST_AUTO_TEST_CASE(a_group_that_an_exception_leaves_is_a_failure) {
  const auto all = cuda_tests::outcomes(1, {}, [](NcclCommunicator& comm) {
    const auto other = comm.split(0, 0);
    zero::CudaDevice device;
    zero::CudaStream& stream = device.make_stream("a");
    OnDevice<float> data(1, 1);
    try {
      comm.grouped([&] {
        comm.all_reduce(stream, data.data(), 1);
        throw std::runtime_error("in the middle");
      });
    } catch (const std::runtime_error&) {}
    other.barrier(stream);
  });
  BOOST_TEST(all[0].communicator_error);
  BOOST_TEST(contains(all[0].error, "a group was left by an exception"));
}

BOOST_AUTO_TEST_CASE(work_of_the_device_can_be_waited_for_after_a_failure_was_told) {
  const auto all = cuda_tests::outcomes(1, {}, [](NcclCommunicator& comm) {
    zero::CudaDevice device;
    zero::CudaStream& stream = device.make_stream("a");
    OnDevice<float> data(1, 1);
    comm.all_reduce(stream, data.data(), 1);
    comm.abort("stop");
    for (int i = 0; i < 2; ++i) {
      try {
        stream.check();
        throw std::runtime_error("check() forgot the failure");
      } catch (const zero::CommunicatorError&) {}
    }
    try {
      stream.synchronize();
      throw std::runtime_error("synchronize() did not tell the failure");
    } catch (const zero::CommunicatorError&) {}
    bool ran = false;
    cuda_tests::enqueue(stream, [&ran] { ran = true; });
    stream.synchronize();
    if (!ran) throw std::runtime_error("not waited for");
  });
  BOOST_TEST(all[0].error == "");
}

BOOST_AUTO_TEST_CASE(ranks_that_are_left_go_on_after_a_failure) {
  if (too_few_devices(4)) return;
  NcclOptions options = hasty;
  options.on_failure = zero::NcclFailure::revoke;
  std::vector<float> sums(4);
  const auto all = cuda_tests::outcomes(4, options, [&](NcclCommunicator& comm) {
    const auto pair = comm.split(static_cast<int>(comm.rank() / 2), 0);
    float value = 1;
    comm.all_reduce(&value, 1);
    if (comm.rank() == 3) return;
    try {
      comm.all_reduce(&value, 1, {.unit = "block.3"});
    } catch (const zero::TimeoutError&) {}
    const std::size_t lost = 3;
    const auto left = comm.shrink({&lost, 1});
    value = 1;
    left.all_reduce(&value, 1);
    left.split(0, 0).all_reduce(&value, 1);
    sums[comm.rank()] = value;
    pair.barrier();  // of the old world
  });
  for (const std::size_t rank : {0U, 1U, 2U}) {
    BOOST_TEST(sums[rank] == 9);
    BOOST_TEST(contains(all[rank].error, "of unit block.3"), all[rank].error);
  }
  const auto aborted = cuda_tests::outcomes(1, hasty, [](NcclCommunicator& comm) {
    comm.abort("stop");
    const std::size_t lost = 1;
    comm.shrink({&lost, 1});
  });
  BOOST_TEST(contains(aborted[0].error, "NcclFailure::revoke"));
}

BOOST_AUTO_TEST_SUITE_END()
