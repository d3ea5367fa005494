// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What modules take of CUDA, exactly. On the emulator only.
#include <boost/test/unit_test.hpp>
#include <emulator/emulator.hpp>
#include <vector>
#include <zero/policy/stages.hpp>

#include "training.hpp"

BOOST_AUTO_TEST_SUITE(module_bytes_test)

using training::Result;
using training::Setup;

BOOST_AUTO_TEST_CASE(a_module_takes_the_bytes_that_it_predicts_and_steps_take_none) {
  constexpr const char* allocating[] = {"cudaMalloc", "cudaHostAlloc", "cudaMallocAsync",
                                        "cudaEventCreateWithFlags", "cudaStreamCreateWithPriority"};
  training::for_each_stage(
      [&](const char* name, const zero::StageValue& stage, std::size_t replicas) {
        Setup setup{.stage = stage, .ranks = 4, .replicas = replicas};
        std::vector<std::uint64_t> counts[2];
        for (const std::size_t steps : {0U, 4U}) {
          setup.steps.assign(steps, {.micro_steps = 2});
          emulator::reset();
          for (const Result& rank : training::on_cuda(setup)) {
            BOOST_TEST(rank.error == "", name);
            BOOST_TEST(rank.device_bytes == rank.predicted.total(), name);
          }
          for (const char* function : allocating) {
            counts[steps / 4].push_back(emulator::calls_of(function));
          }
        }
        BOOST_TEST(counts[0] == counts[1], name);
      });
  emulator::reset();
}

BOOST_AUTO_TEST_CASE(a_unit_of_two_types_is_gathered_in_one_operation) {
  const auto groups_of_calls = [](zero::DataType compute) {
    emulator::reset();
    const auto ranks = training::on_cuda({.stage = zero::stage_value<zero::Zero3>,
                                          .types = {.compute = compute},
                                          .steps = {{}, {}}});
    for (const auto& rank : ranks) BOOST_TEST(rank.error == "");
    return emulator::calls_of("ncclGroupEnd", 0);
  };
  // Biases stay fp32. In both steps four units are gathered again backward. Forward, each of these
  // five has a slot that is free from the start and waits for updates of the step before.
  BOOST_TEST(groups_of_calls(zero::DataType::bf16) ==
             groups_of_calls(zero::DataType::fp32) + 2 * 4);
}

BOOST_AUTO_TEST_SUITE_END()
