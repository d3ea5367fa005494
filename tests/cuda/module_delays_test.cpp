// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Modules whose streams sleep before each piece of work, so that a wait that is missing shows as
// other bits than those of the host, or to the thread sanitizer. On the emulator only.
#include <boost/test/unit_test.hpp>
#include <emulator/emulator.hpp>
#include <vector>
#include <zero/policy/stages.hpp>

#include "../share.hpp"
#include "training.hpp"

BOOST_AUTO_TEST_SUITE(module_delays_test)

using training::Result;
using training::Setup;
using training::StepPlan;
using zero::InHostMemory;
using zero::OffloadOf;

/// Trains on slow streams; has the bits of the host, and takes no more memory with each step.
void check(const Setup& setup) {
  const std::vector<Result> host = training::on_host(setup);
  emulator::reset();
  emulator::set_delays(share > 1 ? 20 : 100, 1);
  const std::vector<Result> cuda = training::on_cuda(setup);
  for (std::size_t rank = 0; rank < setup.ranks; ++rank) {
    BOOST_TEST_CONTEXT("rank " << rank) {
      BOOST_TEST(cuda[rank].error == "");
      BOOST_TEST((cuda[rank].bits == host[rank].bits));
      BOOST_TEST(cuda[rank].counter == host[rank].counter);
      BOOST_TEST((setup.freezes || cuda[rank].more_bytes == 0));
    }
  }
  for (const std::string& report : emulator::take_reports()) BOOST_TEST(report == "");
  emulator::reset();
}
/// Small whole gradients, whose sums are exact, and a host that runs ahead.
std::vector<StepPlan> exact_steps(std::size_t steps) {
  return std::vector<StepPlan>((steps + share - 1) / share,
                               {.micro_steps = 2, .exact = true, .waits = false});
}

// B76, B82
BOOST_AUTO_TEST_CASE(state_that_comes_and_goes_late_is_updated_whole_and_memory_is_flat) {
  check({.stage = zero::stage_value<OffloadOf<zero::Hybrid, InHostMemory>>,
         .ranks = 4,
         .replicas = 2,
         .types = {.compute = zero::DataType::bf16},
         .steps = exact_steps(25)});
  check({.stage = zero::stage_value<OffloadOf<zero::Zero2, InHostMemory>>,
         .types = {.compute = zero::DataType::bf16},
         .steps = exact_steps(50)});
}

// B78
BOOST_AUTO_TEST_CASE(gradients_may_get_another_buffer_while_streams_are_late) {
  for (const zero::StageValue& stage :
       {zero::stage_value<zero::Zero2>, zero::stage_value<zero::Zero3>}) {
    check({.stage = stage, .steps = exact_steps(4), .freezes = true});
  }
}

BOOST_AUTO_TEST_CASE(a_captured_step_begins_after_what_was_set_before_it_is_stored) {
  const StepPlan plan{.exact = true, .captured = true},
      after{.exact = true, .written = true, .captured = true};
  check({.stage = zero::stage_value<OffloadOf<zero::Zero3, InHostMemory>>,
         .steps = {plan, after, plan, after}});
}

BOOST_AUTO_TEST_SUITE_END()
