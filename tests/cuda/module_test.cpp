// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Modules over CUDA and NCCL train the bits that modules over threads of the host train.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <vector>

#include "training.hpp"

BOOST_AUTO_TEST_SUITE(module_test)

using training::Result;
using training::Setup;
using training::StepPlan;

/// Trains in both worlds and compares all that ranks end with.
void check_both(const Setup& setup) {
  const std::vector<Result> host = training::on_host(setup), cuda = training::on_cuda(setup);
  for (std::size_t rank = 0; rank < setup.ranks; ++rank) {
    BOOST_TEST_CONTEXT("rank " << rank) {
      BOOST_TEST(cuda[rank].error == "");
      BOOST_TEST((cuda[rank].bits == host[rank].bits));
      BOOST_TEST(cuda[rank].counter == host[rank].counter);
      BOOST_REQUIRE(cuda[rank].steps.size() == host[rank].steps.size());
      for (std::size_t k = 0; k < host[rank].steps.size(); ++k) {
        const zero::StepResult &a = cuda[rank].steps[k], &b = host[rank].steps[k];
        BOOST_TEST(a.applied == b.applied);
        BOOST_TEST(a.step == b.step);
        BOOST_TEST(a.loss_scale == b.loss_scale);
        // The order in which squares are added is the device's own.
        BOOST_TEST((a.norm == b.norm || std::abs(a.norm - b.norm) < 1e-12 * b.norm));
      }
      BOOST_TEST((cuda[rank].held == cuda[rank].predicted));
    }
  }
}

BOOST_AUTO_TEST_CASE(all_stages_train_the_bits_of_the_host) {
  training::for_each_stage([](const char* name, const zero::StageValue& stage,
                              std::size_t replicas) {
    for (const std::size_t ranks : {1U, 2U, 3U, 4U}) {
      if (ranks % replicas != 0 || (replicas > 1 && ranks < 4)) continue;
      BOOST_TEST_CONTEXT(name << ", " << ranks << " ranks") {
        check_both({.stage = stage,
                    .ranks = ranks,
                    .replicas = replicas,
                    .options = {.poison = true},
                    .steps = {{}, {.micro_steps = 3}, {.skips_a_unit = true}, {}}});
      }
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
