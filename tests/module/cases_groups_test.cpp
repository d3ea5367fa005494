// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Learning rates and decay belong to named tensors, whatever shard border cuts through them.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_groups_test)

using namespace harness;
using zero::Sgd;

/// Trains in each stage and calls f(outcome) for each rank.
template <class Optimizers, class F>
void everywhere(std::size_t ranks, const Model& model, const Optimizers& optimizers,
                const Plan& plan, F f) {
  for_each_stage(ranks, [&](const NamedStage& stage) {
    for (const Mode& mode : {modes()[0], modes()[4], modes()[5]}) {
      BOOST_TEST_CONTEXT(stage << " on " << ranks << " ranks, " << mode.name) {
        const Setup setup = Setup{}.in(mode).on(ranks, stage.replicas);
        std::vector<Outcome> outcomes(ranks);
        on_threads(ranks, setup.options.time_limit, [&](zero::ThreadCommunicator& comm) {
          auto sharded =
              shard(stage, model, zero::mesh(comm, stage.replicas), optimizers, setup.options);
          zero::Module<Model, Sgd, zero::ThreadCommunicator, float>& module = sharded;
          outcomes[comm.rank()] = train(module, mode.user_code, plan);
        });
        for (const Outcome& rank : outcomes) f(rank);
      }
    }
  });
}

// B37 without files: on 3 ranks the borders of shards cut through the tensors.
BOOST_AUTO_TEST_CASE(groups_that_differ_in_the_learning_rate_only_move_by_their_own) {
  const Model model = model_of({"unit", 2, sizes({5, 40})}, {"head", 1, sizes({7})});
  const auto optimizers =
      zero::groups(Sgd{.learning_rate = 1},
                   {{"unit.*.b", Sgd{.learning_rate = 0.25}}, {"head.*", Sgd{.learning_rate = 8}}});
  for (const std::size_t ranks : {1, 3, 4}) {
    everywhere(ranks, model, optimizers, {}, [](const Outcome& rank) {
      std::vector<float> expected;
      for (int u = 0; u < 2; ++u) {
        expected.insert(expected.end(), 5, -1);
        expected.insert(expected.end(), 40, -0.25F);
      }
      expected.insert(expected.end(), 7, -8);
      BOOST_TEST(same_bits(rank.weights, expected));
    });
  }
}

// B39: both settings follow the position of the schedule, by group, not the count of micro-steps.
BOOST_AUTO_TEST_CASE(each_group_follows_schedules_of_its_own_once_per_applied_step) {
  const Model model = model_of({"unit", 1, sizes({3, 3}).no_decay({1})});
  const auto tenths = [](std::int64_t step) { return 0.125F * static_cast<float>(step + 1); };
  const auto optimizers = zero::groups(
      Sgd{.learning_rate = tenths},
      {{"*.a", Sgd{.learning_rate = 1,
                   .weight_decay = [](std::int64_t step) { return step == 1 ? 0.5F : 0.0F; }}}});
  const Plan plan{.steps = 6, .micro_steps = 3, .gradient = [](const Place& p) {
                    if (p.step == 2) return std::numeric_limits<float>::infinity();
                    return p.micro_step == 0 ? 1.0F : 0.0F;
                  }};
  everywhere(4, model, optimizers, plan, [](const Outcome& rank) {
    // a: -1, then half of that and -1, then -1 each; b: an eighth of 1 + 2 + 3 + 4 + 5.
    const std::vector<float> expected{-4.5F, -4.5F, -4.5F, -1.875F, -1.875F, -1.875F};
    BOOST_TEST(same_bits(rank.weights, expected));
    BOOST_TEST(rank.steps[5].step == 5);
  });
}

BOOST_AUTO_TEST_CASE(a_group_may_name_tensors_that_are_frozen) {
  const Model model = model_of({"unit", 1, sizes({3, 3}).frozen({1})});
  everywhere(2, model, zero::groups(Sgd{.learning_rate = 1}, {{"*.b", Sgd{}}}), {},
             [](const Outcome& rank) {
               BOOST_TEST(same_bits(rank.weights, {-1, -1, -1, 0, 0, 0}));
             });
}

BOOST_AUTO_TEST_CASE(patterns_and_settings_that_make_no_sense_are_refused_at_construction) {
  const Model model = model_of({"unit", 1, sizes({3, 3})});
  const auto text_of = [&](const zero::Groups<Sgd>& optimizers) {
    return error_of([&] {
      on_threads(2, std::chrono::seconds(10), [&](zero::ThreadCommunicator& comm) {
        auto module = zero::shard<zero::Zero2>(model, comm, optimizers);
      });
    });
  };
  const std::string unknown = text_of(zero::groups(Sgd{}, {{"unit.*.norm", Sgd{}}}));
  BOOST_TEST(says(unknown, {"ContractError: ", "'unit.*.norm'", "unit.a"}), unknown);
  const std::string twice = text_of(zero::groups(Sgd{}, {{"*.a", Sgd{}}, {"unit.*", Sgd{}}}));
  BOOST_TEST(says(twice, {"ContractError: ", "'unit.a'", "'*.a'", "'unit.*'"}), twice);
  const std::string negative = text_of(Sgd{.learning_rate = -0.5});
  BOOST_TEST(says(negative, {"ContractError: ", "Sgd::learning_rate is -0.5"}), negative);
}

// A function may return nonsense later: then nothing changes on any rank.
BOOST_AUTO_TEST_CASE(a_schedule_that_returns_nonsense_is_an_error_before_anything_changes) {
  const Sgd nonsense{.learning_rate = [](std::int64_t step) { return step == 1 ? -1.0F : 1.0F; }};
  for_each_stage(2, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      for (const auto& [text, weights] :
           on_ranks(stage, Setup{}.on(2, stage.replicas), model_of({"unit", 1, sizes({3})}),
                    nonsense, [&](auto& module) {
                      std::string said = error_of(
                          [&] { (void)train(module, zero::UserCode::on_caller, {.steps = 2}); });
                      return std::pair(said, weights_of(module));
                    })) {
        BOOST_TEST(says(text, {"ContractError: ", "-1", "step 1"}), text);
        BOOST_TEST(all_are(weights, -1));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(ranks_with_different_optimizers_get_an_error_and_update_nothing) {
  const Model model = model_of({"unit", 1, sizes({3, 3})});
  const auto by_name = [](const char* pattern) {
    return zero::groups(Sgd{.learning_rate = 1}, {{pattern, Sgd{.learning_rate = 0.5}}});
  };
  const std::vector<std::pair<zero::Groups<Sgd>, zero::Groups<Sgd>>> pairs{
      {Sgd{.learning_rate = 1}, Sgd{.learning_rate = 1.0000001F}},
      {Sgd{}, Sgd{.momentum = 0.5F}},
      {Sgd{}, Sgd{.weight_decay = 1e-3F}},
      {by_name("*.a"), by_name("*.b")}};
  for (const auto& pair : pairs) {
    for_each_stage(2, [&](const NamedStage& stage) {
      BOOST_TEST_CONTEXT(stage) {
        std::vector<std::string> texts(2);
        std::vector<std::vector<float>> weights(2);
        on_threads(2, std::chrono::seconds(10), [&](zero::ThreadCommunicator& comm) {
          auto sharded = shard(stage, model, zero::mesh(comm, stage.replicas),
                               comm.rank() == 0 ? pair.first : pair.second);
          zero::Module<Model, Sgd, zero::ThreadCommunicator, float>& module = sharded;
          texts[comm.rank()] =
              error_of([&] { (void)train(module, zero::UserCode::on_caller, {}); });
          weights[comm.rank()] = weights_of(module);
        });
        for (std::size_t r = 0; r < 2; ++r) {
          BOOST_TEST(says(texts[r], {"ContractError: ", "different settings", "nothing"}),
                     texts[r]);
          BOOST_TEST(all_are(weights[r], 0));
        }
      }
    });
  }
}

// A function that differs from a step on is found in that step.
BOOST_AUTO_TEST_CASE(schedules_that_part_are_found_in_the_step_in_which_they_do) {
  const Model model = model_of({"unit", 1, sizes({3})});
  std::vector<std::string> texts(2);
  std::vector<std::vector<float>> weights(2);
  on_threads(2, std::chrono::seconds(10), [&](zero::ThreadCommunicator& comm) {
    const Sgd parting{.learning_rate = [rank = comm.rank()](std::int64_t step) {
      return step == 2 && rank == 1 ? 2.0F : 1.0F;
    }};
    auto sharded = zero::shard<zero::Zero2>(model, comm, parting);
    zero::Module<Model, Sgd, zero::ThreadCommunicator, float>& module = sharded;
    texts[comm.rank()] =
        error_of([&] { (void)train(module, zero::UserCode::on_caller, {.steps = 4}); });
    weights[comm.rank()] = weights_of(module);
  });
  for (std::size_t r = 0; r < 2; ++r) {
    BOOST_TEST(says(texts[r], {"ContractError: ", "at step 2", "learning rates"}), texts[r]);
    BOOST_TEST(all_are(weights[r], -2));
  }
}

BOOST_AUTO_TEST_SUITE_END()
