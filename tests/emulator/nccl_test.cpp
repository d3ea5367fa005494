// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Collectives of the emulator do what those of NCCL do.
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <emulator/fixtures.hpp>
#include <functional>
#include <numeric>

using namespace emulator_test;

BOOST_AUTO_TEST_SUITE(nccl_test)

using Values = std::vector<int>;

/// `count` values that only this rank has.
Values own_values(int rank, int count) {
  Values values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 100 * rank);
  return values;
}
Values part(const Values& values, int first, int count) {
  return Values(values.begin() + first, values.begin() + first + count);
}

BOOST_AUTO_TEST_CASE(each_collective_moves_what_it_says) {
  constexpr int ranks = 3, count = 5;
  Values gathered, summed(ranks * count);
  for (int rank = 0; rank < ranks; ++rank) {
    const Values own = own_values(rank, ranks * count);
    gathered.insert(gathered.end(), own.begin(), own.begin() + count);
    std::transform(own.begin(), own.end(), summed.begin(), summed.begin(), std::plus<>());
  }
  const auto results = run_ranks(ranks, [](Rank& own) {
    const Values values = own_values(own.rank, ranks * count);
    const Array<int> in(values), all(ranks * count), mine(count), place(values);
    const auto comm = own.comm;
    const auto stream = own.stream;
    std::vector<Values> got;
    ncclAllGather(in.data(), all.data(), count, ncclInt32, comm, stream);
    got.push_back(all.values(stream));
    ncclReduceScatter(in.data(), mine.data(), count, ncclInt32, ncclSum, comm, stream);
    got.push_back(mine.values(stream));
    ncclAllReduce(in.data(), all.data(), ranks * count, ncclInt32, ncclSum, comm, stream);
    got.push_back(all.values(stream));
    ncclBroadcast(in.data(), mine.data(), count, ncclInt32, 1, comm, stream);
    got.push_back(mine.values(stream));
    ncclReduce(in.data(), all.data(), ranks * count, ncclInt32, ncclMax, 2, comm, stream);
    got.push_back(all.values(stream));
    // In place: a reduce-scatter into this rank's part, then a gather of the parts.
    int* const part_of_it = place.data() + own.rank * count;
    ncclReduceScatter(place.data(), part_of_it, count, ncclInt32, ncclSum, comm, stream);
    ncclAllGather(part_of_it, place.data(), count, ncclInt32, comm, stream);
    got.push_back(place.values(stream));
    ncclAllReduce(place.data(), place.data(), ranks * count, ncclInt32, ncclMin, comm, stream);
    got.push_back(place.values(stream));
    return got;
  });
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& got = results[static_cast<std::size_t>(rank)];
    BOOST_TEST(got[0] == gathered);
    BOOST_TEST(got[1] == part(summed, rank * count, count));
    BOOST_TEST(got[2] == summed);
    BOOST_TEST(got[3] == own_values(1, count));
    BOOST_TEST(got[4] == (rank == 2 ? own_values(2, ranks * count) : summed));
    BOOST_TEST(got[5] == summed);
    BOOST_TEST(got[6] == summed);
  }
  BOOST_TEST(emulator::leaks() == "");
}

/// 16-bit types are summed in fp32 in rank order and rounded once; a sum that is rounded each time
/// gives 256.
BOOST_AUTO_TEST_CASE(half_types_are_summed_in_fp32) {
  constexpr unsigned short values[] = {0x4380, 0x3f80, 0x3f80, 0x0000};  // bf16: 256, 1, 1, 0
  const auto results = run_ranks(4, [&](Rank& own) {
    const Array<unsigned short> memory(std::vector<unsigned short>{values[own.rank]});
    ncclAllReduce(memory.data(), memory.data(), 1, ncclBfloat16, ncclSum, own.comm, own.stream);
    const unsigned short sum = memory.values(own.stream)[0];
    ncclAllReduce(memory.data(), memory.data(), 1, ncclBfloat16, ncclAvg, own.comm, own.stream);
    return std::pair(sum, memory.values(own.stream)[0]);
  });
  for (const auto& [sum, average] : results) BOOST_TEST((sum == 0x4381 && average == 0x4381));
}

BOOST_AUTO_TEST_CASE(a_scaled_sum_scales_each_rank_by_its_own_scalar) {
  const auto results = run_ranks(4, [](Rank& own) {
    const Array<double> memory(std::vector<double>{3.0, 5.0}), in_memory(std::vector<double>{10.0});
    double scalar = own.rank + 1.0;
    ncclRedOp_t now, later;
    ncclRedOpCreatePreMulSum(&now, &scalar, ncclFloat64, ncclScalarHostImmediate, own.comm);
    ncclRedOpCreatePreMulSum(&later, in_memory.data(), ncclFloat64, ncclScalarDevice, own.comm);
    scalar = 0;
    double* const data = memory.data();
    ncclAllReduce(data, data, 1, ncclFloat64, now, own.comm, own.stream);
    ncclAllReduce(data + 1, data + 1, 1, ncclFloat64, later, own.comm, own.stream);
    const bool wrong_type =
        ncclAllReduce(data, data, 1, ncclFloat32, now, own.comm, own.stream) == ncclInvalidArgument;
    ncclRedOpDestroy(now, own.comm);
    ncclRedOpDestroy(later, own.comm);
    const auto sums = memory.values(own.stream);
    return wrong_type && sums == std::vector<double>{30.0, 200.0};
  });
  for (const bool right : results) BOOST_TEST(right);
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(groups_send_and_receive_around_a_ring) {
  const auto results = run_ranks(4, [](Rank& own) {
    const Array<int> out(std::vector<int>{own.rank, own.rank}), in(2), gathered(4);
    const int next = (own.rank + 1) % 4, previous = (own.rank + 3) % 4;
    ncclGroupStart();
    ncclSend(out.data(), 2, ncclInt32, next, own.comm, own.stream);
    ncclAllGather(out.data(), gathered.data(), 1, ncclInt32, own.comm, own.stream);
    ncclRecv(in.data(), 2, ncclInt32, previous, own.comm, own.stream);
    const bool fine = ncclGroupEnd() == ncclSuccess;
    return fine && in.values(own.stream) == std::vector<int>{previous, previous} &&
           gathered.values(own.stream) == std::vector<int>{0, 1, 2, 3};
  });
  for (const bool right : results) BOOST_TEST(right);
}

BOOST_AUTO_TEST_CASE(a_split_orders_by_color_key_and_rank) {
  const auto results = run_ranks(4, [](Rank& own) {
    ncclComm_t half = nullptr, none = nullptr;
    // Ranks 0 and 2, ranks 1 and 3, each in the opposite order.
    ncclCommSplit(own.comm, own.rank % 2, -own.rank, &half, nullptr);
    const bool out = ncclCommSplit(own.comm, NCCL_SPLIT_NOCOLOR, 0, &none, nullptr) == ncclSuccess;
    int rank = -1, size = -1, device = -1;
    ncclCommUserRank(half, &rank);
    ncclCommCount(half, &size);
    ncclCommCuDevice(half, &device);
    const Array<int> mine(std::vector<int>{own.rank}), both(2);
    ncclAllGather(mine.data(), both.data(), 1, ncclInt32, half, own.stream);
    const auto members = both.values(own.stream);
    ncclCommDestroy(half);
    return out && !none && rank == (own.rank < 2 ? 1 : 0) && size == 2 && device == own.rank &&
           members == std::vector<int>{2 + own.rank % 2, own.rank % 2};
  });
  for (const bool right : results) BOOST_TEST(right);
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(a_communicator_that_does_not_block_is_in_progress_until_it_is_asked) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  const auto results = run_ranks(2, [id](Rank& own) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const Array<int> memory(std::vector<int>{own.rank + 1});
    ncclComm_t comm = nullptr;
    const ncclResult_t init = ncclCommInitRankConfig(&comm, 2, id, own.rank, &config);
    bool right = init == ncclSuccess || init == ncclInProgress;
    const auto sum = [&] {
      return ncclAllReduce(memory.data(), memory.data(), 1, ncclInt32, ncclSum, comm, own.stream);
    };
    const auto finished = [&] {
      ncclResult_t error;
      do ncclCommGetAsyncError(comm, &error);
      while (error == ncclInProgress);
      return error == ncclSuccess;
    };
    right = finished() && right;
    // Its first collective is on the stream only when it is no longer in progress.
    right = sum() == ncclInProgress && sum() == ncclInvalidArgument && right;
    right = cudaStreamQuery(own.stream) == cudaSuccess && finished() && right;
    right = memory.values(own.stream) == std::vector<int>{3} && right;
    right = sum() == ncclSuccess && memory.values(own.stream) == std::vector<int>{6} && right;
    ncclCommFinalize(comm);
    right = finished() && right;
    return ncclCommDestroy(comm) == ncclSuccess && right;
  });
  for (const bool right : results) BOOST_TEST(right);
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(one_thread_drives_all_ranks_by_groups) {
  ncclComm_t comms[3];
  BOOST_TEST(ncclCommInitAll(comms, 3, nullptr) == ncclSuccess);
  std::vector<std::unique_ptr<Array<int>>> memory;
  std::vector<cudaStream_t> streams;
  for (int rank = 0; rank < 3; ++rank) {
    cudaSetDevice(rank);
    memory.push_back(std::make_unique<Array<int>>(std::vector<int>{rank}));
    streams.push_back(make_stream());
  }
  ncclGroupStart();
  for (std::size_t rank = 0; rank < 3; ++rank) {
    int* const data = memory[rank]->data();
    ncclAllReduce(data, data, 1, ncclInt32, ncclSum, comms[rank], streams[rank]);
  }
  BOOST_TEST(ncclGroupEnd() == ncclSuccess);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    BOOST_TEST(memory[rank]->values(streams[rank])[0] == 3);
    cudaStreamDestroy(streams[rank]);
    ncclCommDestroy(comms[rank]);
  }
  memory.clear();
  cudaSetDevice(0);
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_CASE(memory_of_nccl_can_be_registered) {
  ncclComm_t comm;
  ncclCommInitAll(&comm, 1, nullptr);
  void *memory, *handle;
  ncclWindow_t window;
  BOOST_TEST(ncclMemAlloc(&memory, 5000) == ncclSuccess);
  BOOST_TEST(ncclCommRegister(comm, memory, 5000, &handle) == ncclSuccess);
  BOOST_TEST(ncclCommWindowRegister(comm, memory, 5000, &window, NCCL_WIN_COLL_SYMMETRIC) ==
             ncclSuccess);
  BOOST_TEST(emulator::live().registrations == 2u);
  BOOST_TEST(ncclCommRegister(comm, memory, 5001, &handle) == ncclInvalidArgument);
  BOOST_TEST(emulator::take_reports().size() == 1u);
  BOOST_TEST(ncclCommWindowDeregister(comm, window) == ncclSuccess);
  BOOST_TEST(emulator::leaks() == "1 device allocations, 1 communicators, 1 registrations");
  ncclCommDestroy(comm);
  ncclMemFree(memory);
  BOOST_TEST(emulator::leaks() == "");
}

BOOST_AUTO_TEST_SUITE_END()
