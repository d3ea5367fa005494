// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Gradients are the average over ranks of the sum over micro-steps, in every stage and on every
// mesh.
#include <boost/test/unit_test.hpp>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_gradients_test)

using namespace harness;

/// lr 1 and weights that start at 0: minus the sum of all gradients that were applied.
const zero::Sgd sgd{.learning_rate = 1};

float rank_of(const Place& p) { return static_cast<float>(p.rank); }
float micro_of(const Place& p) { return static_cast<float>(p.micro_step); }

/// Trains in every stage that `ranks` ranks can form and checks that every element, on every rank,
/// moved by `moved`.
void every_element_moves(const Setup& setup, const Model& model, const Plan& plan, float moved) {
  for_each_stage(setup.ranks, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage << " on " << setup.ranks << " ranks") {
      for (const Outcome& rank :
           train(stage, setup.on(setup.ranks, stage.replicas), model, sgd, plan)) {
        BOOST_TEST(all_are(rank.weights, -moved));
        BOOST_TEST(rank.applied());
      }
    }
  });
}

// B01
BOOST_AUTO_TEST_CASE(one_rank_adds_six_micro_steps_to_six) {
  const Model model = model_of({"unit", 1, sizes({4})});
  const Plan plan{.micro_steps = 6, .finish = {.divisor = 1}};
  for (const Mode& mode : tried_modes()) {
    BOOST_TEST_CONTEXT(mode.name) every_element_moves(Setup{}.in(mode), model, plan, 6);
  }
}

// B02
BOOST_AUTO_TEST_CASE(units_that_share_a_gradient_slot_keep_all_micro_steps) {
  const Model model = model_of({"unit", 2, sizes({5, 3})});
  const Plan plan{.micro_steps = 4, .gradient = [](const Place& p) { return micro_of(p) + 1; }};
  for (const Mode& mode : tried_modes()) {
    BOOST_TEST_CONTEXT(mode.name) {
      every_element_moves(Setup{}.in(mode), model, plan, 10);
      every_element_moves(Setup{}.in(mode).on(2), model, plan, 10);
      using OneSlot =
          zero::Stage<zero::ShardOptimizer<>, zero::ShardGrads<zero::GradsOptions{.slots = 1}>>;
      for (const Outcome& rank : train<OneSlot>(Setup{}.in(mode), model, sgd, plan)) {
        BOOST_TEST(all_are(rank.weights, -10));
      }
    }
  }
}

// B03
BOOST_AUTO_TEST_CASE(no_backward_of_a_step_is_forgotten) {
  const Model model = model_of({"unit", 3, sizes({7, 1, 2})});
  const Plan plan{.micro_steps = 3,
                  .gradient = [](const Place& p) { return 10 * (micro_of(p) + 1) + rank_of(p); }};
  for (const Mode& mode : tried_modes()) {
    BOOST_TEST_CONTEXT(mode.name) every_element_moves(Setup{}.in(mode).on(2), model, plan, 61.5F);
  }
}

// B05
BOOST_AUTO_TEST_CASE(tensors_may_get_gradients_in_some_micro_steps_only) {
  const Model model = model_of({"unit", 1, sizes({3, 3})});
  const Plan plan{
      .micro_steps = 3,
      .gradient =
          [](const Place& p) { return p.micro_step == 2   ? 4.0F
                                      : p.micro_step == 1 ? 2.0F
                                                          : 1.0F; },
      .touches = [](const Place& p) { return p.micro_step == 2 || p.tensor == p.micro_step; }};
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        for (const Outcome& rank :
             train(stage, Setup{}.in(mode).on(2, stage.replicas), model, sgd, plan)) {
          BOOST_TEST(same_bits(rank.weights, {-5, -5, -5, -6, -6, -6}));
        }
      }
    }
  });
}

// B07
BOOST_AUTO_TEST_CASE(ranks_hold_the_same_weights_after_a_window_of_two) {
  const Model model = model_of({"unit", 2, sizes({4, 3})});
  const Plan plan{.micro_steps = 2, .gradient = [](const Place& p) {
                    const float given[2][2] = {{2, 4}, {6, 8}};
                    return given[p.rank][p.micro_step];
                  }};
  every_element_moves(Setup{}.on(2), model, plan, 10);
}

// B11
BOOST_AUTO_TEST_CASE(replicas_sum_the_partial_sums_of_all_micro_steps) {
  const Model model = model_of({"unit", 3, sizes({5, 4})});
  const Plan plan{.micro_steps = 2, .gradient = [](const Place& p) {
                    return p.micro_step == 0 ? rank_of(p) : 10 * rank_of(p);
                  }};
  for (const Mode& mode : tried_modes()) {
    BOOST_TEST_CONTEXT(mode.name) every_element_moves(Setup{}.in(mode).on(4), model, plan, 16.5F);
  }
}

// B16
BOOST_AUTO_TEST_CASE(a_mean_over_tokens_is_a_sum_with_the_tokens_as_divisor) {
  const Model model = model_of({"unit", 1, sizes({3})});
  // Rank 0 has one token of gradient 1, rank 1 three of 5; each adds the sum over its tokens.
  const Plan plan{.gradient = [](const Place& p) { return p.rank == 0 ? 1.0F : 15.0F; },
                  .finish = {.divisor = 4}};
  every_element_moves(Setup{}.on(2), model, plan, 4);
}

// B39, and a window may change its length from step to step.
BOOST_AUTO_TEST_CASE(the_length_of_a_window_may_change_from_step_to_step) {
  const Model model = model_of({"unit", 2, sizes({3, 2})});
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
        for (const Outcome& rank : on_ranks(stage, setup, model, sgd, [&](auto& module) {
               Outcome outcome;
               Plan plan;
               for (const std::size_t micro_steps : {1, 4, 2, 16, 1, 1, 3}) {
                 plan.micro_steps = micro_steps;
                 const Outcome step = train(module, mode.user_code, plan, false);
                 outcome.steps.insert(outcome.steps.end(), step.steps.begin(), step.steps.end());
                 outcome.weights = step.weights;
               }
               return outcome;
             })) {
          BOOST_TEST(all_are(rank.weights, -28));
          BOOST_TEST(rank.steps.back().step == 7);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
