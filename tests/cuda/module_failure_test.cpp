// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Whatever call of CUDA or NCCL fails while a module is made, trains and ends: every rank gets an
// error of zero's, none hangs, nothing leaks.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <emulator/emulator.hpp>
#include <string>
#include <zero/policy/stages.hpp>

#include "../share.hpp"
#include "training.hpp"

BOOST_AUTO_TEST_SUITE(module_failure_test)

using training::Result;
using training::Setup;

Setup two_steps() {
  return {.stage = zero::stage_value<zero::Zero3>,
          .options = {.time_limit = std::chrono::milliseconds(2000)},
          .steps = {{}, {.captured = true}}};
}

BOOST_AUTO_TEST_CASE(each_call_that_fails_is_an_error_on_every_rank_and_leaves_nothing) {
  emulator::reset();
  const emulator::Live before = emulator::live();
  for (const Result& rank : training::on_cuda(two_steps())) BOOST_TEST(rank.error == "");
  BOOST_TEST((emulator::live() == before), emulator::leaks());
  const std::uint64_t calls = emulator::calls(0);
  BOOST_TEST(calls > 200U);
  std::uint64_t tried = 0, silent = 0;
  const auto begin = std::chrono::steady_clock::now();
  // All of them one by one take long: each run takes another few.
  for (std::uint64_t call = 1; call <= calls; call += 7 * share, ++tried) {
    emulator::reset();
    emulator::fail_call({.call = call, .device = 0});
    emulator::set_tracing(true);
    const std::vector<Result> ranks = training::on_cuda(two_steps());
    emulator::set_tracing(false);
    silent += ranks[0].error.empty();
    BOOST_TEST_CONTEXT("call " << call << ": '" << ranks[0].error << "', '" << ranks[1].error
                               << "'") {
      // What fails in the end, when all is done and given back, is no error of training.
      BOOST_TEST((ranks[0].error.empty() || !ranks[1].error.empty() || !ranks[1].bits.empty()));
      BOOST_TEST((emulator::live() == before), emulator::leaks());
    }
  }
  BOOST_TEST_MESSAGE(calls << " calls, of which " << tried << " failed, " << silent
                           << " without an error, in "
                           << (std::chrono::steady_clock::now() - begin) / std::chrono::seconds(1)
                           << " s");
  emulator::reset();
}

BOOST_AUTO_TEST_SUITE_END()
