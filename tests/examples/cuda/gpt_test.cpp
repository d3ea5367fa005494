// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The GPT example on CUDA learns what it learns on the host.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include "gpt/cuda/ranks.hpp"
#include "gpt/cuda/training.hpp"
#include "gpt/report.hpp"
#include "gpt/trainer.hpp"

BOOST_AUTO_TEST_SUITE(gpt_test)

/// Trains on the host, then on CUDA with and without captured steps.
template <class StageType>
void check_stage(const char* name) {
  gpt::Options o;
  o.ranks = std::min<gpt::Size>(2, gpt::gpu_count());
  o.layers = 2;
  o.width = 16;
  o.heads = 2;
  o.context = 8;
  o.sequences = 2;
  o.micro_steps = 2;
  o.steps = 4;
  o.sample = 3;
  std::string text;
  for (int i = 0; i < 20; ++i) text += "the quick brown fox jumps over the lazy dog, and ";
  gpt::use_one_thread_for_math();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> nowhere(std::fopen("/dev/null", "w"),
                                                                std::fclose);
  const gpt::Training host = gpt::train<StageType>(name, o, text, o.sample, nowhere.get());
  std::vector<double> eager;
  for (const bool captured : {false, true}) {
    BOOST_TEST_CONTEXT(name << (captured ? ", captured" : "")) {
      o.captured = captured;
      const gpt::Training cuda =
          gpt::train_on_gpus(name, zero::stage_value<StageType>, o, text, nowhere.get());
      BOOST_REQUIRE(cuda.losses.size() == host.losses.size());
      for (std::size_t step = 0; step < host.losses.size(); ++step)
        BOOST_TEST(std::abs(cuda.losses[step] - host.losses[step]) < 1e-5);
      BOOST_TEST(gpt::complaint(std::vector{cuda}) == "");
      BOOST_TEST(cuda.sample == host.sample);
      if (captured) BOOST_TEST((cuda.losses == eager));
      eager = cuda.losses;
    }
  }
  BOOST_TEST(host.losses.back() < host.losses.front() - 0.01);
}

BOOST_AUTO_TEST_CASE(stage_0_has_the_losses_of_the_host) { check_stage<zero::Ddp>("Ddp"); }
BOOST_AUTO_TEST_CASE(stage_3_has_the_losses_of_the_host) { check_stage<zero::Zero3>("Zero3"); }

BOOST_AUTO_TEST_SUITE_END()
