// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Whatever call of CUDA or NCCL fails while a module is made, trains and ends: every rank gets an
// error of zero's, none hangs, nothing leaks.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <emulator/emulator.hpp>
#include <map>
#include <set>
#include <string>
#include <zero/policy/stages.hpp>

#include "../share.hpp"
#include "training.hpp"

BOOST_AUTO_TEST_SUITE(module_failure_test)

using training::Result;
using training::Setup;

Setup two_steps() {
  return {.stage = zero::stage_value<zero::Zero3>,
          .options = {.time_limit = std::chrono::milliseconds(400)},
          .steps = {{}, {.captured = true}}};
}

BOOST_AUTO_TEST_CASE(each_function_that_fails_is_an_error_on_every_rank_and_leaves_nothing) {
  emulator::reset();
  const emulator::Live before = emulator::live();
  emulator::set_tracing(true);
  for (const Result& rank : training::on_cuda(two_steps())) BOOST_TEST(rank.error == "");
  emulator::set_tracing(false);
  BOOST_TEST((emulator::live() == before), emulator::leaks());
  std::map<std::string, std::uint64_t> functions;  // how often rank 0 calls each
  for (const emulator::Record& record : emulator::trace()) {
    if (record.work || record.device != 0) continue;
    functions[record.what] = emulator::calls_of(record.what, 0);
  }
  BOOST_TEST(functions.size() > 30U);
  // The first call of each, one in the middle, and the last, which may come when all is done.
  std::size_t tried = 0, silent = 0;
  for (const auto& [function, calls] : functions) {
    for (const std::uint64_t call : std::set<std::uint64_t>{1, calls / 2, calls}) {
      if (call == 0 || tried++ % share != 0) continue;
      emulator::reset();
      emulator::fail_call({.function = function, .call = call, .device = 0});
      const std::vector<Result> ranks = training::on_cuda(two_steps());
      silent += ranks[0].error.empty();
      BOOST_TEST_CONTEXT(function << " " << call << ": '" << ranks[0].error << "', '"
                                  << ranks[1].error << "'") {
        BOOST_TEST((ranks[0].error.empty() || !ranks[1].error.empty() || !ranks[1].bits.empty()));
        for (const Result& rank : ranks) {
          BOOST_TEST(rank.error.find("not a zero::Error") == std::string::npos);
        }
        BOOST_TEST((emulator::live() == before), emulator::leaks());
      }
    }
  }
  BOOST_TEST_MESSAGE(functions.size() << " functions, " << tried << " calls that fail, " << silent
                                      << " of them without an error");
  BOOST_TEST(silent * 3 < tried / share);
  emulator::reset();
}

BOOST_AUTO_TEST_CASE(a_rank_that_leaves_is_named_by_the_others) {
  Setup setup = two_steps();
  setup.ranks = 3;
  setup.leaves = true;
  const std::vector<Result> ranks = training::on_cuda(setup);
  BOOST_TEST(ranks[2].error == "left on purpose (not a zero::Error)");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    for (const char* part : {"rank 2", "block.1", " at "}) {
      BOOST_TEST(ranks[rank].error.find(part) != std::string::npos, ranks[rank].error);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
