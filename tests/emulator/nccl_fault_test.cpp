// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What goes wrong between ranks: mismatches, lost ranks, aborts, communicators that block each
// other.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <emulator/fixtures.hpp>

using namespace emulator_test;

BOOST_AUTO_TEST_SUITE(nccl_fault_test)

bool pending_after(cudaStream_t stream, int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  const bool pending = cudaStreamQuery(stream) == cudaErrorNotReady;
  cudaGetLastError();
  return pending;
}
ncclResult_t sum(const Array<float>& memory, std::size_t count, ncclComm_t comm,
                 cudaStream_t stream) {
  return ncclAllReduce(memory.data(), memory.data(), count, ncclFloat32, ncclSum, comm, stream);
}

BOOST_AUTO_TEST_CASE(a_mismatch_names_both_ranks_and_never_completes) {
  const auto results = run_ranks(3, [](Rank& own) {
    const Array<float> memory(8);
    sum(memory, 8, own.comm, own.stream);
    sum(memory, own.rank == 2 ? 5 : 8, own.comm, own.stream);
    const bool told = wait_for_error(own.comm) == ncclInvalidUsage;
    const std::string text = ncclGetLastError(own.comm);
    const bool pending = pending_after(own.stream, 5);
    const bool refused = sum(memory, 8, own.comm, own.stream) == ncclInvalidUsage;
    ncclCommAbort(std::exchange(own.comm, nullptr));
    const bool ended = cudaStreamSynchronize(own.stream) == cudaSuccess;
    return told && pending && refused && ended ? text : "wrong";
  });
  const auto reports = emulator::take_reports();
  BOOST_REQUIRE(reports.size() == 1u);
  BOOST_TEST(reports[0] ==
             "collective 2 of a communicator is not the same on all ranks: rank 0 called "
             "ncclAllReduce of 8 elements of ncclFloat32 (sum), rank 2 called ncclAllReduce of 5 "
             "elements of ncclFloat32 (sum)");
  for (const auto& text : results) BOOST_TEST(text == reports[0]);
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(types_operators_roots_and_kinds_are_compared) {
  const auto mismatches = [](auto other) {
    run_ranks(2, [&](Rank& own) {
      const Array<float> memory(8);
      if (own.rank == 0) {
        ncclBroadcast(memory.data(), memory.data(), 4, ncclFloat32, 0, own.comm, own.stream);
      } else {
        other(memory.data(), own);
      }
      wait_for_error(own.comm);
      ncclCommAbort(std::exchange(own.comm, nullptr));
      cudaStreamSynchronize(own.stream);
      return 0;
    });
    return emulator::take_reports().size() == 1;
  };
  BOOST_TEST(mismatches([](float* data, const Rank& own) {
    ncclBroadcast(data, data, 4, ncclInt32, 0, own.comm, own.stream);
  }));
  BOOST_TEST(mismatches([](float* data, const Rank& own) {
    ncclBroadcast(data, data, 4, ncclFloat32, 1, own.comm, own.stream);
  }));
  BOOST_TEST(mismatches([](float* data, const Rank& own) {
    ncclAllGather(data + 4, data, 4, ncclFloat32, own.comm, own.stream);
  }));
}

BOOST_AUTO_TEST_CASE(a_lost_rank_keeps_the_others_until_they_abort) {
  std::atomic<int> waiting{0};
  const auto results = run_ranks(4, [&](Rank& own) {
    const Array<float> memory(8);
    if (own.rank == 3) {
      while (waiting != 3) std::this_thread::yield();
      ncclCommAbort(std::exchange(own.comm, nullptr));
      return true;
    }
    sum(memory, 8, own.comm, own.stream);
    bool right = pending_after(own.stream, 10);
    ++waiting;
    // That the lost rank aborted does not help the others.
    right = pending_after(own.stream, 10) && right;
    ncclResult_t error = ncclInternalError;
    ncclCommGetAsyncError(own.comm, &error);
    right = error == ncclSuccess && right;
    ncclCommAbort(std::exchange(own.comm, nullptr));
    return cudaStreamSynchronize(own.stream) == cudaSuccess && right;
  });
  for (const bool right : results) BOOST_TEST(right);
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(a_group_aborts_communicators_that_block_each_other) {
  std::atomic<int> looked{0};
  const auto results = run_ranks(2, [&](Rank& own) {
    ncclComm_t second = nullptr;
    ncclCommSplit(own.comm, 0, own.rank, &second, nullptr);
    const Array<float> memory(8);
    // One stream, and the two communicators in another order on each rank.
    sum(memory, 8, own.rank == 0 ? own.comm : second, own.stream);
    sum(memory, 8, own.rank == 0 ? second : own.comm, own.stream);
    const bool blocked = pending_after(own.stream, 20);
    ++looked;
    while (looked != 2) std::this_thread::yield();
    ncclGroupStart();
    ncclCommAbort(std::exchange(own.comm, nullptr));
    ncclCommAbort(second);
    const bool ended = ncclGroupEnd() == ncclSuccess;
    return blocked && ended && cudaStreamSynchronize(own.stream) == cudaSuccess;
  });
  for (const bool right : results) BOOST_TEST(right);
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(a_device_that_is_full_of_collectives_blocks_other_streams_too) {
  emulator::set_resident_collectives(1);
  std::atomic<int> looked{0};
  const auto results = run_ranks(2, [&](Rank& own) {
    ncclComm_t second = nullptr;
    ncclCommSplit(own.comm, 0, own.rank, &second, nullptr);
    const cudaStream_t other = make_stream();
    const Array<float> memory(8), more(8);
    // Two streams now, of which each rank fills the device with another one first.
    std::atomic<bool> begun{false};
    emulator::enqueue(own.stream, "begin", [&] { begun = true; });
    sum(memory, 8, own.rank == 0 ? own.comm : second, own.stream);
    while (!begun) std::this_thread::yield();
    const bool alone = pending_after(own.stream, 50);
    sum(more, 8, own.rank == 0 ? second : own.comm, other);
    const bool blocked = pending_after(own.stream, 20);
    ++looked;
    while (looked != 2) std::this_thread::yield();
    ncclGroupStart();
    ncclCommAbort(std::exchange(own.comm, nullptr));
    ncclCommAbort(second);
    ncclGroupEnd();
    cudaStreamSynchronize(own.stream);
    cudaStreamSynchronize(other);
    cudaStreamDestroy(other);
    return alone && blocked;
  });
  for (const bool right : results) BOOST_TEST(right);
  emulator::reset();
}

BOOST_AUTO_TEST_CASE(collectives_run_in_the_order_of_their_calls_whatever_the_stream) {
  const auto results = run_ranks(2, [](Rank& own) {
    const cudaStream_t other = make_stream();
    const Array<float> memory(8), more(8);
    std::atomic<bool> go{false};
    emulator::enqueue(own.stream, "held", [&] {
      while (!go) std::this_thread::yield();
    });
    sum(memory, 8, own.comm, own.stream);
    sum(more, 8, own.comm, other);
    const bool waits = pending_after(other, 10);
    go = true;
    cudaStreamSynchronize(own.stream);
    const bool ended = cudaStreamSynchronize(other) == cudaSuccess;
    cudaStreamDestroy(other);
    return waits && ended;
  });
  for (const bool right : results) BOOST_TEST(right);
}

BOOST_AUTO_TEST_CASE(a_device_that_fails_lets_go_of_its_collectives) {
  const auto results = run_ranks(2, [](Rank& own) {
    const Array<float> memory(8);
    if (own.rank == 0) {
      sum(memory, 8, own.comm, own.stream);
      const cudaStream_t other = make_stream();
      emulator::enqueue(other, "mistake", [] { throw std::runtime_error("planted"); });
      const cudaError_t error = cudaStreamSynchronize(own.stream);
      cudaStreamDestroy(other);
      return error == cudaErrorIllegalAddress;
    }
    return true;
  });
  for (const bool right : results) BOOST_TEST(right);
  BOOST_TEST(emulator::take_reports().size() == 1u);
  emulator::reset();
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(an_abort_ends_an_initialisation_that_nobody_joins) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  BOOST_TEST(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
  ncclResult_t error = ncclSuccess;
  ncclCommGetAsyncError(comm, &error);
  BOOST_TEST(error == ncclInProgress);
  int count;
  BOOST_TEST(ncclCommCount(comm, &count) == ncclInvalidArgument);
  BOOST_TEST(ncclCommAbort(comm) == ncclSuccess);
  BOOST_TEST(ncclCommDestroy(comm) == ncclInvalidArgument);
  BOOST_TEST(emulator::take_reports().size() == 1u);
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(a_graph_outlives_its_communicator_but_is_not_launched) {
  ncclComm_t comm;
  ncclCommInitAll(&comm, 1, nullptr);
  const cudaStream_t stream = make_stream();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  {
    const Array<float> memory(8);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    sum(memory, 8, comm, stream);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&executable, graph, 0);
    ncclCommDestroy(comm);
    cudaGraphLaunch(executable, stream);
    cudaStreamSynchronize(stream);
    BOOST_TEST(emulator::take_reports().size() == 1u);
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(one_device_cannot_be_two_ranks) {
  ncclComm_t comms[2];
  const int devices[] = {0, 0};
  BOOST_TEST(ncclCommInitAll(comms, 2, devices) == ncclInvalidUsage);
  BOOST_TEST(std::string(ncclGetLastError(nullptr)) ==
             "Duplicate GPU detected: rank 0 and rank 1 both on device 0");
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(the_ranks_that_are_left_shrink_their_communicator) {
  const auto results = run_ranks(3, [](Rank& own) {
    if (own.rank == 1) {
      ncclCommAbort(std::exchange(own.comm, nullptr));
      return true;
    }
    const Array<float> memory(std::vector<float>{1.0f});
    sum(memory, 1, own.comm, own.stream);
    int lost[] = {1};
    ncclComm_t left = nullptr;
    bool right =
        ncclCommShrink(own.comm, lost, 1, &left, nullptr, NCCL_SHRINK_ABORT) == ncclSuccess;
    int rank = -1;
    ncclCommUserRank(left, &rank);
    right =
        rank == (own.rank == 0 ? 0 : 1) && sum(memory, 1, left, own.stream) == ncclSuccess && right;
    right = memory.values(own.stream) == std::vector<float>{2.0f} && right;
    ncclCommDestroy(left);
    ncclCommAbort(std::exchange(own.comm, nullptr));
    return right;
  });
  for (const bool right : results) BOOST_TEST(right);
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(errors_that_a_test_sets_are_told_and_calls_of_groups_fail_the_group) {
  ncclComm_t comm;
  ncclCommInitAll(&comm, 1, nullptr);
  const cudaStream_t stream = make_stream();
  {
    const Array<float> memory(8);
    emulator::fail_call({.function = "ncclAllReduce", .nccl = ncclSystemError});
    ncclGroupStart();
    BOOST_TEST(sum(memory, 8, comm, stream) == ncclSystemError);
    BOOST_TEST(sum(memory, 8, comm, stream) == ncclSuccess);
    BOOST_TEST(ncclGroupEnd() == ncclSystemError);
    BOOST_TEST(sum(memory, 8, comm, stream) == ncclSuccess);
    emulator::set_async_error(comm, ncclRemoteError);
    BOOST_TEST(wait_for_error(comm) == ncclRemoteError);
    BOOST_TEST(sum(memory, 8, comm, stream) == ncclRemoteError);
    emulator::fail_call({.function = "ncclCommAbort"});
    BOOST_TEST(ncclCommAbort(comm) == ncclSystemError);
    cudaStreamSynchronize(stream);
  }
  cudaStreamDestroy(stream);
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_SUITE_END()
