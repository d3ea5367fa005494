// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trainings drawn at random leave the weights and the state, and each step has the result, of a
// loop on one thread that knows no shards. ZERO_RANDOM_TRAININGS="FIRST COUNT" tries other seeds.
#include <boost/test/unit_test.hpp>
#include <iostream>

#include "random_draw.hpp"
#include "random_run.hpp"

BOOST_AUTO_TEST_SUITE(random_training_test)

using namespace random_training;

BOOST_AUTO_TEST_CASE(trainings_drawn_at_random_leave_what_one_thread_without_shards_leaves) {
  const Seeds seeds("ZERO_RANDOM_TRAININGS", 300);
  for (std::size_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    Case c = draw(seed);
    const Reference reference(c);
    const auto nothing = [](auto&) {};
    const std::string wrong = train_case(c, reference, nothing, nothing);
    BOOST_CHECK_MESSAGE(wrong.empty(), text(c) << "\n" << wrong);
  }
  std::cout << "zero-counted: " << seeds.count << " random trainings gave the bits of one thread\n";
}

BOOST_AUTO_TEST_SUITE_END()
