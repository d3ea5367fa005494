// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Several ranks on one device: what gpu-check trains with where there is one GPU.
#include "device_communicator.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <zero/device/cuda/graph.hpp>

#include "../comm/conformance.hpp"

BOOST_AUTO_TEST_SUITE(device_communicator_test)

struct World {
  using Place = cuda_tests::Place;
  static constexpr bool in_rank_order = true;
  static constexpr bool accumulates = true;
  static constexpr std::array<std::size_t, 2> ranks = {1, 3};
  template <class F>
  static void run(std::size_t count, F f) {
    cuda_tests::on_one_device(count, f);
  }
};

#include "../comm/conformance_cases.hpp"

BOOST_AUTO_TEST_CASE(ranks_that_call_different_collectives_are_told_which) {
  BOOST_CHECK_EXCEPTION(
      cuda_tests::on_one_device(3,
                                [](auto& comm) {
                                  zero::CudaDevice device;
                                  auto& stream = device.make_stream("a");
                                  cuda_tests::OnDevice<float> data(6, 1);
                                  comm.all_reduce(stream, data.data(), comm.rank() == 1 ? 5 : 6);
                                }),
      zero::CommunicatorError, [](const auto& error) {
        return std::string(error.what()).find("rank 1 all_reduce(5 x fp32)") != std::string::npos;
      });
}

BOOST_AUTO_TEST_CASE(a_capture_is_refused) {
  BOOST_CHECK_THROW(cuda_tests::on_one_device(1,
                                              [](auto& comm) {
                                                zero::CudaDevice device;
                                                auto& stream = device.make_stream("a");
                                                zero::CudaCapture capture(stream, {});
                                                comm.barrier(stream);
                                              }),
                    zero::ContractError);
}

BOOST_AUTO_TEST_SUITE_END()
