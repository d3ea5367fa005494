// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Stages 0 to 3 train the same bits.
#include <boost/test/unit_test.hpp>

#include "../share.hpp"
#include "grid.hpp"

BOOST_AUTO_TEST_SUITE(equivalence_test)

using grid::Case;
using grid::Outcome;
using grid::train;
using zero::Ddp;
using zero::StreamMode;
using zero::UserCode;
using zero::Zero1;
using zero::Zero2;
using zero::Zero3;

const std::vector<std::size_t> worlds =
    share == 1 ? std::vector<std::size_t>{1, 2, 3, 4, 5, 8} : std::vector<std::size_t>{1, 4};

void check_reference(const Case& c, const Outcome& outcome) {
  const grid::Reference reference(c);
  BOOST_CHECK_MESSAGE(reference.distance(outcome) < 1e-6,
                      c.text() << ": differs by " << reference.distance(outcome));
  BOOST_CHECK_MESSAGE(reference.norm_distance(outcome) < 1e-6,
                      c.text() << ": norm differs by " << reference.norm_distance(outcome));
}
void check_equal(const Case& c, const char* stage, const Outcome& outcome,
                 const Outcome& expected) {
  BOOST_CHECK_MESSAGE(!outcome.empty(), c.text() << ": ranks differ in " << stage);
  BOOST_CHECK_MESSAGE(outcome == expected, c.text() << ": other bits in " << stage);
}
void check_all_stages(const Case& c) {
  const Outcome expected = train<Ddp>(c);
  check_equal(c, "Ddp", expected, expected);
  check_equal(c, "Zero1", train<Zero1>(c), expected);
  check_equal(c, "Zero2", train<Zero2>(c), expected);
  check_equal(c, "Zero3", train<Zero3>(c), expected);
  check_reference(c, expected);
}

BOOST_AUTO_TEST_CASE(with_one_micro_step_all_stages_train_the_same_bits_and_a_reference_agrees) {
  for (const grid::Shapes& shapes : grid::tried_models()) {
    for (const std::size_t world : worlds) check_all_stages({.shapes = shapes, .world = world});
  }
}

BOOST_AUTO_TEST_CASE(with_exact_gradients_all_stages_train_the_same_bits_in_any_micro_steps) {
  for (const grid::Shapes& shapes : grid::tried_models()) {
    for (const std::size_t world : worlds) {
      check_all_stages({.shapes = shapes, .world = world, .micro_steps = {3}, .exact = true});
    }
  }
  check_all_stages({.world = 3, .micro_steps = {1, 3, 2, 4, 1}, .exact = true});
}

BOOST_AUTO_TEST_CASE(stages_that_communicate_at_the_same_times_train_the_same_bits) {
  for (const grid::Shapes& shapes : grid::tried_models()) {
    for (const std::size_t world : {1U, 2U, 5U}) {
      const Case c{.shapes = shapes, .world = world, .micro_steps = {3, 1}};
      const Outcome late = train<Ddp>(c), early = train<Zero2>(c);
      check_equal(c, "Zero1", train<Zero1>(c), late);
      check_equal(c, "Zero3", train<Zero3>(c), early);
      check_reference(c, late);
      check_reference(c, early);
    }
  }
}

BOOST_AUTO_TEST_CASE(clipping_has_the_same_bits_in_all_stages) {
  for (const std::size_t world : worlds) {
    check_all_stages({.shapes = grid::models[4], .world = world, .max_norm = 0.5});
  }
}

BOOST_AUTO_TEST_CASE(streams_and_where_user_code_runs_change_no_bit) {
  for (const grid::Shapes& shapes : {grid::models[2], grid::models[4], grid::models[5]}) {
    for (const std::size_t world : {1U, 3U, 4U}) {
      if (share > 1 && (world == 1 || shapes.units() == 6)) continue;
      Case c{.shapes = shapes, .world = world, .micro_steps = {1, 1, 1, 3, 3}};
      const Outcome late = train<Ddp>(c), early = train<Zero2>(c);
      for (const StreamMode mode :
           {StreamMode::inline_run, StreamMode::asynchronous, StreamMode::shuffled}) {
        for (const UserCode code : {UserCode::on_caller, UserCode::on_stream}) {
          c.options.streams = mode;
          c.options.user_code = code;
          c.options.poison = code == UserCode::on_stream;
          check_equal(c, "Ddp", train<Ddp>(c), late);
          check_equal(c, "Zero1", train<Zero1>(c), late);
          check_equal(c, "Zero2", train<Zero2>(c), early);
          check_equal(c, "Zero3", train<Zero3>(c), early);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_hundred_random_orders_of_the_streams_change_no_bit) {
  Case c{.shapes = grid::models[4], .evaluates = false};
  const Outcome expected = train<Ddp>(c);
  c.options.streams = StreamMode::shuffled;
  c.options.user_code = UserCode::on_stream;
  c.options.poison = true;
  for (std::size_t seed = 0; seed < 100 / share; ++seed) {
    c.options.seed = seed;
    check_equal(c, "Zero1", train<Zero1>(c), expected);
    check_equal(c, "Zero3", train<Zero3>(c), expected);
  }
}

BOOST_AUTO_TEST_SUITE_END()
