// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What communicators over NCCL do besides what all communicators do.
#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zero/comm/mesh.hpp>
#include <zero/comm/nccl/memory.hpp>
#include <zero/cuda.hpp>

#include "place.hpp"
#include "ranks.hpp"

BOOST_AUTO_TEST_SUITE(nccl_test)

using cuda_tests::OnDevice;
using cuda_tests::ranks_for;
using zero::NcclCommunicator;
using zero::NcclOptions;

void expect(bool right, const char* what) {
  if (!right) throw zero::Error(what);
}

void check_all(const std::vector<cuda_tests::Outcome>& all) {
  for (const cuda_tests::Outcome& outcome : all) BOOST_TEST(outcome.error == "");
}

BOOST_AUTO_TEST_CASE(a_group_of_several_types_and_communicators_is_one_operation) {
  const std::size_t ranks = ranks_for(4);
  check_all(cuda_tests::outcomes(ranks, {}, [&](NcclCommunicator& comm) {
    const auto part = comm.split(static_cast<int>(comm.rank() % 2), 0);
    zero::CudaDevice device;
    zero::CudaStream& stream = device.make_stream("gather");
    for (int round = 1; round < 4; ++round) {
      OnDevice<float> single(8, 1);
      OnDevice<zero::bf16> narrow(8, zero::bf16(2));
      OnDevice<double> twice(8, 3);
      comm.grouped([&] {
        comm.all_reduce(stream, single.data(), 8);
        comm.grouped([&] { comm.all_reduce(stream, narrow.data(), 8); });
        part.all_reduce(stream, twice.data(), 8);
      });
      stream.synchronize();
      const auto sum = static_cast<float>(ranks);
      expect(single.values()[7] == sum, "fp32");
      expect(static_cast<float>(narrow.values()[7]) == 2 * sum, "bf16");
      expect(twice.values()[7] == 3.0 * static_cast<double>(part.size()), "of the other");
    }
    try {
      comm.grouped([&] { comm.barrier(); });
      expect(false, "a blocking collective in a group was not refused");
    } catch (const zero::ContractError&) {}
  }));
}

BOOST_AUTO_TEST_CASE(an_average_of_integers_is_rounded_down) {
  const std::size_t ranks = ranks_for(3);
  check_all(cuda_tests::outcomes(ranks, {}, [&](NcclCommunicator& comm) {
    std::uint64_t value = comm.rank() == 0 ? 5 : 0;
    comm.all_reduce(&value, 1, {}, zero::Reduction::average);
    expect(value == 5 / ranks, "average");
  }));
}

BOOST_AUTO_TEST_CASE(a_communicator_of_the_user_is_used_and_not_destroyed) {
  const std::size_t ranks = ranks_for(2);
  const ncclUniqueId id = zero::nccl_unique_id();
  check_all(cuda_tests::on_threads(ranks, [&](std::size_t rank) {
    ncclComm_t own = nullptr;
    expect(
        ncclCommInitRank(&own, static_cast<int>(ranks), id, static_cast<int>(rank)) == ncclSuccess,
        "init");
    {
      const auto comm = NcclCommunicator::adopt(own);
      expect(comm.rank() == rank && comm.size() == ranks && comm.native() == own, "asked");
      const auto mesh = zero::mesh(comm);
      float value = 1;
      mesh.world.all_reduce(&value, 1);
      mesh.replicate.all_reduce(&value, 1);
      expect(value == static_cast<float>(ranks), "sum");
    }
    int count = 0;
    expect(ncclCommCount(own, &count) == ncclSuccess && count == static_cast<int>(ranks), "alive");
    expect(ncclCommDestroy(own) == ncclSuccess, "destroy");
  }));
  BOOST_CHECK_THROW(NcclCommunicator::adopt(nullptr), zero::CommunicatorError);
}

BOOST_AUTO_TEST_CASE(memory_of_nccl_is_registered_as_a_window) {
  const std::size_t ranks = ranks_for(2);
  check_all(cuda_tests::outcomes(ranks, {}, [&](NcclCommunicator& comm) {
    constexpr std::size_t bytes = 8192;
    zero::detail::Block<zero::NcclMemory> block(zero::NcclMemory(), bytes);
    zero::NcclWindow made(comm, block.data(), bytes);
    const zero::NcclWindow window = std::move(made);
    expect(!made.registered(), "moved from");
    auto* data = reinterpret_cast<float*>(block.data());
    zero::CudaDevice device;
    zero::CudaStream& stream = device.make_stream("a");
    zero::detail::check_cuda(cudaMemsetAsync(data, 0, bytes, stream.native()), "memset");
    comm.all_reduce(stream, data, bytes / sizeof(float));
    stream.synchronize();
    try {
      const zero::NcclWindow odd(comm, block.data() + 16, 16);
      expect(false, "a window at 16 bytes was not refused");
    } catch (const zero::ContractError&) {}
  }));
  BOOST_CHECK_EXCEPTION(zero::NcclMemory().allocate(std::size_t{1} << 50), zero::DeviceError,
                        [](const auto& error) {
                          return cuda_tests::contains(error.what(), std::to_string(1ULL << 50));
                        });
}

BOOST_AUTO_TEST_CASE(options_of_nccl_are_passed_on) {
  NcclOptions options;
  options.config.minCTAs = 4;
  options.config.maxCTAs = 2;
  const auto all = cuda_tests::outcomes(1, options, [](NcclCommunicator&) {});
  BOOST_TEST(all[0].communicator_error);
  BOOST_TEST(cuda_tests::contains(all[0].error, "ncclCommInitRankConfig"));
  options.config.maxCTAs = 8;
  options.config.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY;
  check_all(cuda_tests::outcomes(1, options, [](NcclCommunicator& comm) { comm.barrier(); }));
}

// B100
BOOST_AUTO_TEST_CASE(one_thread_issues_the_collectives_of_all_communicators_of_a_rank) {
  check_all(cuda_tests::outcomes(1, {}, [](NcclCommunicator& comm) {
    const auto other = comm.split(0, 0);
    comm.barrier();
    std::string refused;
    std::thread([&] {
      try {
        other.barrier();
      } catch (const zero::ContractError& error) { refused = error.what(); }
      other.drive_from_this_thread();
      other.barrier();
    }).join();
    expect(cuda_tests::contains(refused, "another thread issues the collectives"), "refused");
    comm.drive_from_this_thread();
    comm.barrier();
  }));
}

BOOST_AUTO_TEST_CASE(wrong_devices_colors_and_ranks_are_refused) {
  check_all(cuda_tests::outcomes(1, {}, [](NcclCommunicator& comm) {
    const auto refused = [](const char* why, auto call) {
      try {
        call();
        expect(false, why);
      } catch (const zero::ContractError& error) {
        expect(cuda_tests::contains(error.what(), why), error.what());
      }
    };
    refused("color", [&] { comm.split(-1, 0); });
    refused("Pass a rank below", [] { NcclCommunicator::make(zero::nccl_unique_id(), 1, 1); });
    refused("time_limit", [] {
      NcclCommunicator::make(zero::nccl_unique_id(), 0, 1,
                             {.time_limit = std::chrono::milliseconds(0)});
    });
    if (cuda_tests::too_few_devices(2)) return;
    zero::CudaDevice far({.ordinal = 1});
    refused("belongs to device 1", [&] { comm.barrier(far.make_stream("far")); });
  }));
}

// B92
BOOST_AUTO_TEST_CASE(communicators_that_come_and_go_leave_no_memory_behind) {
  check_all(cuda_tests::outcomes(1, {}, [](NcclCommunicator&) {
    std::size_t before = 0, total = 0;
    for (int round = 0; round < 20; ++round) {
      {
        const auto comm = NcclCommunicator::make(zero::nccl_unique_id(), 0, 1);
        const auto mesh = zero::mesh(comm);
        mesh.shard.barrier();
        mesh.replicate.barrier();
      }
      std::size_t left = 0;
      zero::detail::check_cuda(cudaMemGetInfo(&left, &total), "cudaMemGetInfo");
      if (round == 1) before = left;
      if (round > 1) expect(left == before, "memory of the device grows");
    }
  }));
}

BOOST_AUTO_TEST_CASE(ranks_that_are_left_go_on_after_others_were_excluded) {
  const std::size_t ranks = ranks_for(4);
  if (ranks < 4) return;
  check_all(cuda_tests::outcomes(ranks, {}, [](NcclCommunicator& comm) {
    if (comm.rank() == 1) return;
    const std::array<std::size_t, 1> lost = {1};
    const auto left = comm.shrink(lost);
    expect(left.size() == 3 && left.rank() == (comm.rank() == 0 ? 0 : comm.rank() - 1), "ranks");
    float value = 1;
    left.all_reduce(&value, 1);
    expect(value == 3, "sum");
  }));
}

BOOST_AUTO_TEST_SUITE_END()
