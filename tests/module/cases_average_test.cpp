// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The average of the weights lasts, evaluation can see it, and the weights come back unchanged.
#include <boost/test/unit_test.hpp>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_average_test)

using namespace harness;

using Ema = zero::Ema<zero::Sgd>;
const Ema halves{.optimizer = {.learning_rate = 1}, .decay = 0.5F};

struct Seen {
  std::vector<float> averages;          // after each step
  std::vector<float> live, mean, back;  // what an evaluation sees
  std::vector<float> read;              // while exchanged
  std::vector<std::string> refused;
  std::vector<float> after;  // one more step
};

/// Three steps whose weights are 1, 2 and 3, an evaluation of the average, and one more step.
template <class Module>
Seen average_and_train(Module& module, zero::UserCode where) {
  Seen seen;
  const Plan plan{.gradient = [](const Place&) { return -1.0F; }};
  for (int k = 0; k < 3; ++k) {
    (void)train(module, where, plan, k == 0);
    std::vector<float> average(5);
    module.read_state("unit.a", Ema::average, average);
    seen.averages.insert(seen.averages.end(), average.begin(), average.end());
  }
  seen.live = evaluate(module, where);
  module.exchange_average();
  seen.mean = evaluate(module, where);
  seen.read = weights_of(module);
  const auto refuse = [&](auto call) { seen.refused.push_back(error_of(call)); };
  refuse([&] { (void)module.begin_step(); });
  refuse([&] { module.initialize([](const auto&, auto) { return 0.0F; }); });
  refuse([&] { module.write_weights("unit.a", std::vector<float>(5)); });
  refuse([&] { module.write_state("unit.a", 0, std::vector<float>(5)); });
  refuse([&] { module.set_counter("unit.a", 0); });
  module.exchange_average();
  seen.back = evaluate(module, where);
  seen.after = train(module, where, plan, false).weights;
  return seen;
}

void check(const Seen& rank) {
  for (std::size_t i = 0; i < 15; ++i) {
    const float expected[] = {0.5F, 1.25F, 2.125F};
    BOOST_TEST(rank.averages[i] == expected[i / 5]);
  }
  // Unit "fixed" is frozen and keeps what it began with.
  const std::vector<float> live{3, 3, 3, 3, 3, 0, 0},
      mean{2.125F, 2.125F, 2.125F, 2.125F, 2.125F, 0, 0};
  BOOST_TEST(same_bits(rank.live, live));
  BOOST_TEST(same_bits(rank.mean, mean));
  BOOST_TEST(same_bits(rank.read, mean));
  BOOST_TEST(same_bits(rank.back, live));
  for (const std::string& text : rank.refused) {
    BOOST_TEST(says(text, {"ContractError: ", "exchange_average"}), text);
  }
  BOOST_TEST(same_bits(rank.after, {4, 4, 4, 4, 4, 0, 0}));
}

// B42
BOOST_AUTO_TEST_CASE(an_evaluation_sees_the_average_and_leaves_the_weights_as_they_were) {
  const Model model = model_of({"unit", 1, sizes({5})}, {"fixed", 1, sizes({2}).frozen({0})});
  for (const std::size_t ranks : {1, 3, 4}) {
    for_each_stage(ranks, [&](const NamedStage& stage) {
      for (const Mode& mode : tried_modes()) {
        BOOST_TEST_CONTEXT(stage << " on " << ranks << " ranks, " << mode.name) {
          for (const Seen& rank :
               on_ranks(stage, Setup{}.in(mode).on(ranks, stage.replicas), model, halves,
                        [&](auto& module) { return average_and_train(module, mode.user_code); })) {
            check(rank);
          }
        }
      }
    });
  }
}

// The weights that compute are those of the masters, on the way there and back.
BOOST_AUTO_TEST_CASE(bf16_weights_follow_the_masters_through_an_exchange) {
  const Model model = model_of({"unit", 1, sizes({5})}, {"fixed", 1, sizes({2}).frozen({0})});
  for_each_stage(4, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      for (const Seen& rank : on_ranks<zero::bf16>(
               stage, Setup{}.on(4, stage.replicas), model, halves, [&](auto& module) {
                 return average_and_train(module, zero::UserCode::on_caller);
               })) {
        check(rank);
      }
    }
  });
}

// What never had an update keeps its weights; what has one averages its own.
BOOST_AUTO_TEST_CASE(a_tensor_without_updates_has_no_average_and_stays) {
  const Model model = model_of({"unit", 1, sizes({3, 4})});
  const Plan plan{.initial = [](const auto&, auto) { return 8.0F; },
                  .touches = [](const Place& p) { return p.tensor == 0; }};
  for_each_stage(2, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      for (const auto& weights :
           on_ranks(stage, Setup{}.on(2, stage.replicas), model, halves, [&](auto& module) {
             (void)train(module, zero::UserCode::on_caller, plan);
             module.exchange_average();
             return weights_of(module);
           })) {
        BOOST_TEST(same_bits(weights, {3.5F, 3.5F, 3.5F, 8, 8, 8, 8}));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(freezing_one_tensor_and_thawing_it_moves_the_averages_of_the_others) {
  const Model model = model_of({"a", 2, sizes({5, 7})}, {"b", 1, sizes({3})});
  const Plan plan{.steps = 2, .gradient = [](const Place& p) {
                    return 1.0F + static_cast<float>(p.rank + p.element);
                  }};
  const auto without_b = [](std::vector<float> all) {
    all.resize(24);
    return all;
  };
  std::vector<float> first;
  for_each_stage(4, [&](const NamedStage& stage) {
    const auto ranks = on_ranks<zero::bf16>(
        stage, Setup{}.on(4, stage.replicas), model, halves, [&](auto& module) {
          (void)train(module, zero::UserCode::on_caller, plan);
          const auto weights = weights_of(module), averages = state_of(module, Ema::average);
          module.set_frozen("b.a", true);
          const bool kept = same_bits(state_of(module, Ema::average), without_b(averages)) &&
                            same_bits(without_b(weights_of(module)), without_b(weights));
          module.set_frozen("b.a", false);
          const bool fresh = all_are({state_of(module, Ema::average).back()}, 0);
          std::vector<float> end = train(module, zero::UserCode::on_caller, plan, false).weights;
          end.push_back(kept && fresh ? 1.0F : 0.0F);
          return end;
        });
    if (first.empty()) first = ranks[0];
    BOOST_TEST(first.back() == 1.0F);
    for (const auto& rank : ranks) BOOST_TEST(same_bits(rank, first), stage);
  });
}

// Averages of another type than the weights cannot be exchanged with them: nothing is, and training
// goes on.
BOOST_AUTO_TEST_CASE(an_exchange_that_is_refused_changes_nothing_and_training_goes_on) {
  const Model model = model_of({"unit", 2, sizes({5})});
  const Plan plan{.gradient = [](const Place&) { return -1.0F; }};
  struct Refused {
    std::string exchange, step;
    std::vector<float> weights, after;
  };
  const auto body = [&](auto& module) {
    Refused seen;
    (void)train(module, zero::UserCode::on_caller, plan);
    seen.exchange = error_of([&] { module.exchange_average(); });
    seen.weights = weights_of(module);
    seen.step = error_of(
        [&] { seen.after = train(module, zero::UserCode::on_caller, plan, false).weights; });
    return seen;
  };
  const auto check = [](const std::vector<Refused>& ranks) {
    for (const Refused& rank : ranks) {
      BOOST_TEST(says(rank.exchange, {"ContractError: ", "'unit.0.a'", "in fp32"}), rank.exchange);
      BOOST_TEST(rank.step == "");
      BOOST_TEST(all_are(rank.weights, 1));
      BOOST_TEST(all_are(rank.after, 2));
    }
  };
  for_each_stage(4, [&](const NamedStage& stage) {
    const Setup setup = Setup{}.on(4, stage.replicas);
    check(on_ranks(stage, setup, model, halves, body, {.moments = zero::DataType::bf16}));
    check(on_ranks<zero::bf16>(stage, setup, model, halves, body,
                               {.compute = zero::DataType::bf16, .master = false}));
  });
}

BOOST_AUTO_TEST_SUITE_END()
