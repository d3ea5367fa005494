// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Units that are tied, frozen, without tensors, or not run in some steps.
#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_odd_units_test)

using namespace harness;

const zero::Sgd sgd{.learning_rate = 1};

/// Calls f(outcome) for each rank, stage and mode.
template <class F>
void everywhere(std::size_t ranks, const Model& model, const Plan& plan, F f,
                const zero::Sgd& optimizer = sgd) {
  for_each_stage(ranks, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << " on " << ranks << " ranks, " << mode.name) {
        const Setup setup = Setup{}.in(mode, 3).on(ranks, stage.replicas);
        for (const Outcome& outcome : train(stage, setup, model, optimizer, plan)) {
          f(outcome);
          BOOST_TEST(outcome.gathered_bytes == 0U);
        }
      }
    }
  });
}
bool among(std::size_t unit, std::initializer_list<std::size_t> units) {
  return std::find(units.begin(), units.end(), unit) != units.end();
}

// B58
BOOST_AUTO_TEST_CASE(a_unit_that_is_left_out_of_one_step_is_neither_moved_nor_kept) {
  const Model model = model_of({"unit", 3, sizes({4, 3})});
  const Plan plan{.steps = 3, .runs = [](const Place& p) { return p.step != 1 || p.unit != 1; }};
  everywhere(2, model, plan, [](const Outcome& rank) {
    BOOST_TEST(same_bits(rank.weights, {-3, -3, -3, -3, -3, -3, -3, -2, -2, -2, -2,
                                        -2, -2, -2, -3, -3, -3, -3, -3, -3, -3}));
  });
}

// B58: not skipped in its scope, but never entered.
BOOST_AUTO_TEST_CASE(a_unit_that_is_never_entered_is_neither_moved_nor_kept) {
  const Model model = model_of({"unit", 4, sizes({4})});
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        const Setup setup = Setup{}.in(mode, 5).on(2, stage.replicas);
        const auto ranks = on_ranks(stage, setup, model, sgd, [&](auto& module) {
          Plan plan;
          for (const auto& units :
               {std::vector<std::size_t>{0, 1, 2, 3}, {0, 2}, {3}, {1}, {0, 1, 2, 3}}) {
            auto step = module.begin_step();
            for (const std::size_t u : units) auto unit = step.forward(u);
            for (std::size_t i = units.size(); i-- > 0;) {
              auto unit = step.backward(units[i]);
              add_gradient(module, mode.user_code, unit, plan, {});
            }
            (void)step.finish();
          }
          Outcome outcome;
          module.synchronize();
          outcome.gathered_bytes = module.gathered_bytes();
          outcome.weights = weights_of(module);
          return outcome;
        });
        for (const Outcome& rank : ranks) {
          BOOST_TEST(rank.gathered_bytes == 0U);
          BOOST_TEST(same_bits(rank.weights,
                               {-3, -3, -3, -3, -3, -3, -3, -3, -3, -3, -3, -3, -3, -3, -3, -3}));
        }
      }
    }
  });
}

// B57
BOOST_AUTO_TEST_CASE(ranks_that_run_different_units_all_get_an_error_that_names_the_unit) {
  const Model model = model_of({"A", 1, sizes({4})}, {"B", 1, sizes({4})}, {"C", 1, sizes({2})});
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        const Plan odd{.runs = [](const Place& p) { return p.unit != 1 || p.rank == 0; }};
        const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
        const auto ranks = on_ranks(stage, setup, model, sgd, [&](auto& module) {
          const std::string text = error_of([&] { (void)train(module, mode.user_code, odd); });
          // Nothing was updated, and the module goes on.
          return std::pair(text, train(module, mode.user_code, {}, false));
        });
        for (const auto& [text, after] : ranks) {
          BOOST_TEST(says(text, {"ContractError: ", "unit 'B'", "all ranks"}), text);
          BOOST_TEST(all_are(after.weights, -1));
          BOOST_TEST(after.steps[0].step == 1);
        }
      }
    }
  });
}

// B57: in other micro-steps, the same number of times.
BOOST_AUTO_TEST_CASE(ranks_that_run_a_unit_in_different_micro_steps_get_an_error) {
  const Model model = model_of({"unit", 3, sizes({4})});
  Setup setup = Setup{}.on(2);
  setup.options.max_micro_steps = 64;
  for (const auto& [mine, yours] : {std::pair<std::size_t, std::size_t>{0, 1}, {1, 2}, {31, 63}}) {
    const Plan odd{.micro_steps = 64, .runs = [=](const Place& p) {
                     return p.unit != 1 || p.micro_step == (p.rank == 0 ? mine : yours);
                   }};
    for (const std::string& text : on_ranks<zero::Zero2>(setup, model, sgd, [&](auto& module) {
           return error_of([&] { (void)train(module, zero::UserCode::on_caller, odd); });
         })) {
      BOOST_TEST(says(text, {"ContractError: ", "unit.1"}), text);
    }
  }
}

// B57 B35
BOOST_AUTO_TEST_CASE(a_tensor_with_a_gradient_on_one_rank_counts_as_zero_on_the_others) {
  const Model model = model_of({"unit", 2, sizes({3, 2})});
  const Plan plan{.gradient = [](const Place&) { return 4.0F; },
                  .touches = [](const Place& p) { return p.rank == 0 || p.tensor == 0; }};
  everywhere(2, model, plan, [](const Outcome& rank) {
    BOOST_TEST(same_bits(rank.weights, {-4, -4, -4, -2, -2, -4, -4, -4, -2, -2}));
  });
}

// A mark of one backward must not stick to the next one.
BOOST_AUTO_TEST_CASE(no_gradient_counts_for_its_own_backward_only) {
  const Model model = model_of({"unit", 2, sizes({3})});
  const zero::Sgd decaying{.learning_rate = 1, .weight_decay = 1};
  for_each_stage(2, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      const auto ranks =
          on_ranks(stage, Setup{}.on(2, stage.replicas), model, decaying, [](auto& module) {
            module.initialize([](const auto&, std::size_t) { return 8.0F; });
            auto step = module.begin_step({.micro_steps = 2});
            for (std::size_t m = 0; m < 2; ++m) {
              for (auto unit : step.forward()) {
                if (m == 0 && unit.index() == 0) unit.skip();
              }
              for (auto unit : step.backward()) {
                if (unit.index() != 0) continue;
                if (m == 0) {
                  unit.no_gradient();
                  unit.skip();
                } else {
                  for (float& x : unit.template gradients<Parts>().a) x += 1;
                }
              }
            }
            (void)step.finish();
            return weights_of(module);
          });
      for (const auto& weights : ranks) BOOST_TEST(weights[0] == -1.0F);
    }
  });
}

BOOST_AUTO_TEST_CASE(no_gradient_in_a_forward_is_refused) {
  const Model model = model_of({"unit", 1, sizes({3})});
  on_ranks<zero::Zero3>(Setup{}, model, sgd, [](auto& module) {
    std::string one, all;
    {
      auto step = module.begin_step();
      auto unit = step.forward(0);
      all = error_of([&] { unit.no_gradient(); });
      one = error_of([&] { unit.no_gradient(&Parts<float>::a); });
    }
    if (!says(all, {"'unit'", "forward"})) { throw zero::Error("no clear error: " + all); }
    if (one != all) throw zero::Error("another error: " + one);
    return 0;
  });
}

// B53
BOOST_AUTO_TEST_CASE(a_fully_frozen_trunk_lets_the_head_train) {
  const Model model =
      model_of({"trunk", 2, sizes({4, 3}).frozen({0, 1, 2, 3})}, {"head", 1, sizes({2})});
  const Plan plan{.steps = 3, .micro_steps = 2, .initial = [](const auto&, auto) { return 7.0F; }};
  everywhere(2, model, plan, [](const Outcome& rank) {
    BOOST_TEST(same_bits(rank.weights, {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 1, 1}));
    BOOST_TEST(rank.steps[2].step == 3);
  });
}

BOOST_AUTO_TEST_CASE(a_fully_frozen_model_runs_and_changes_nothing) {
  const Model model = model_of({"unit", 3, sizes({4, 3}).frozen({0, 1, 2, 3})});
  const Plan plan{.steps = 2, .micro_steps = 2, .initial = [](const auto&, auto) { return 7.0F; }};
  everywhere(2, model, plan, [](const Outcome& rank) {
    BOOST_TEST(all_are(rank.weights, 7));
    BOOST_TEST(all_are(rank.seen[3], 7));
    BOOST_TEST(rank.steps[1].norm == 0.0);
    BOOST_TEST(rank.applied());
  });
}

BOOST_AUTO_TEST_CASE(a_frozen_tensor_counts_no_update) {
  const Model model = model_of({"unit", 1, sizes({4, 3}).frozen({1})});
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const auto& [trained, frozen] :
         on_ranks(stage, Setup{}.on(2, stage.replicas), model, sgd, [&](auto& module) {
           (void)train(module, zero::UserCode::on_caller, {.steps = 3});
           return std::pair{module.counter("unit.a"), module.counter("unit.b")};
         })) {
      BOOST_TEST(trained == 3, stage);
      BOOST_TEST(frozen == 0, stage);
    }
  });
}

// B56
BOOST_AUTO_TEST_CASE(frozen_units_are_released_after_backward) {
  const Model model = model_of({"frozen", 2, sizes({4}).frozen({0, 1, 2, 3})},
                               {"trained", 1, sizes({4})}, {"mixed", 1, sizes({4, 4}).frozen({1})});
  everywhere(4, model, {.steps = 2}, [](const Outcome& rank) {
    BOOST_TEST(same_bits(rank.weights,
                         {0, 0, 0, 0, 0, 0, 0, 0, -2, -2, -2, -2, -2, -2, -2, -2, 0, 0, 0, 0}));
  });
}

BOOST_AUTO_TEST_CASE(a_frozen_unit_may_run_forward_only) {
  const Model model =
      model_of({"frozen", 2, sizes({4}).frozen({0, 1, 2, 3})}, {"head", 1, sizes({2})});
  for_each_stage(2, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      for (const auto& weights :
           on_ranks(stage, Setup{}.on(2, stage.replicas), model, sgd, [](auto& module) {
             for (int k = 0; k < 3; ++k) {
               auto step = module.begin_step({.micro_steps = 2});
               for (int m = 0; m < 2; ++m) {
                 for (auto unit : step.forward()) (void)unit.template weights<Parts>();
                 auto unit = step.backward(2);
                 for (float& x : unit.template gradients<Parts>().a) x += 1;
               }
               (void)step.finish();
             }
             return weights_of(module);
           })) {
        BOOST_TEST(same_bits(weights, {0, 0, 0, 0, 0, 0, 0, 0, -6, -6}));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_frozen_tensor_shows_no_gradient) {
  const Model model = model_of({"unit", 1, sizes({4, 3}).frozen({1})});
  const auto sizes_of = on_ranks<zero::Zero2>(Setup{}.on(2), model, sgd, [](auto& module) {
    auto step = module.begin_step();
    (void)step.forward(0);
    auto unit = step.backward(0);
    const auto view = unit.template gradients<Parts>();
    return std::pair(view.a.size(), view.b.size());
  });
  for (const auto& [trained, frozen] : sizes_of) {
    BOOST_TEST(trained == 4U);
    BOOST_TEST(frozen == 0U);
  }
}

// Tied: one storage, one update; gradients of both units are summed.
BOOST_AUTO_TEST_CASE(tied_units_share_weights_and_sum_their_gradients) {
  const Model model =
      model_of({"embed", 1, sizes({5})}, {"block", 3, sizes({4})}, {}, {"head", 1, {}, {"embed"}});
  const Plan plan{.steps = 3, .micro_steps = 2, .gradient = [](const Place& p) {
                    return p.unit == 0 ? 3.0F : p.unit == 4 ? 2.0F : 1.0F;
                  }};
  everywhere(4, model, plan, [](const Outcome& rank) {
    BOOST_TEST(rank.weights.size() == 17U);
    for (std::size_t i = 0; i < 17; ++i) BOOST_TEST(rank.weights[i] == (i < 5 ? -30.0F : -6.0F));
    BOOST_TEST(rank.seen[4].back() == -20.0F);  // what the head sees in the third step
    BOOST_TEST(rank.seen_backward[4].front() == -20.0F);
  });
}

// Tied, and one of the two does not run: its part is zero.
BOOST_AUTO_TEST_CASE(a_tied_tensor_has_a_gradient_if_either_unit_ran) {
  const Model model =
      model_of({"embed", 1, sizes({5})}, {"block", 1, sizes({4})}, {}, {"head", 1, {}, {"embed"}});
  const Plan plan{.steps = 3,
                  .gradient = [](const Place& p) { return p.unit == 0 ? 3.0F : 2.0F; },
                  .runs = [](const Place& p) { return p.step == 2 || p.unit != 2 * p.step; }};
  everywhere(2, model, plan, [](const Outcome& rank) {
    BOOST_TEST(rank.weights[0] == -(2.0F + 3.0F + 5.0F));
    BOOST_TEST(rank.weights[5] == -6.0F);
  });
}

BOOST_AUTO_TEST_CASE(several_units_may_read_one_and_one_may_read_several) {
  const Model model =
      model_of({"a", 1, sizes({3})}, {"b", 1, sizes({2}).frozen({0, 1, 2, 3}), {"a"}}, {},
               {"tail", 3, {}, {"a", "a"}});
  const Plan plan{.steps = 2, .gradient = [](const Place& p) { return p.unit == 1 ? 0.0F : 1.0F; }};
  everywhere(2, model, plan, [](const Outcome& rank) {
    BOOST_TEST(same_bits(rank.weights, {-8, -8, -8, 0, 0}));
  });
}

BOOST_AUTO_TEST_CASE(units_without_tensors_run_between_the_others) {
  const Model model = model_of({"unit", 2, sizes({3})}, {}, {}, {"bare", 2, {}});
  everywhere(2, model, {.steps = 2},
             [](const Outcome& rank) { BOOST_TEST(all_are(rank.weights, -2)); });
}

BOOST_AUTO_TEST_CASE(units_of_empty_tensors_run_between_the_others) {
  const Model model = model_of({"empty", 2, {}}, {"unit", 2, sizes({3})}, {"none", 1, sizes({0})});
  everywhere(3, model, {.steps = 2},
             [](const Outcome& rank) { BOOST_TEST(all_are(rank.weights, -2)); });
}

BOOST_AUTO_TEST_CASE(a_model_without_tensors_runs) {
  const Model model = model_of({}, {}, {}, {"bare", 2, {}});
  for_each_stage(2, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      for (const auto& [outcome, text, held] :
           on_ranks(stage, Setup{}.on(2, stage.replicas), model, sgd, [](auto& module) {
             const std::string unknown = error_of([&] { (void)module.counter("x"); });
             return std::tuple(train(module, zero::UserCode::on_caller, {}), unknown,
                               module.predicted_bytes_held() == module.bytes_held());
           })) {
        BOOST_TEST(outcome.steps[0].norm == 0.0);
        BOOST_TEST(outcome.applied());
        BOOST_TEST(says(text, {"ContractError: ", "'x'", "no tensors"}), text);
        BOOST_TEST(held);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_model_that_cannot_be_is_refused_with_the_unit_that_is_wrong) {
  const auto text_of = [](const Model& model) {
    return error_of([&] { train<zero::Zero1>(Setup{}, model, sgd, {}); });
  };
  const Config four = sizes({4});
  BOOST_TEST(says(text_of(model_of({})), {"ContractError: ", "no units"}));
  BOOST_TEST(says(text_of(model_of({"", 1, four})), {"ContractError: ", "name"}));
  BOOST_TEST(says(text_of(model_of({"u", 1, four}, {"u", 1, four})), {"ContractError: ", "'u'"}));
  BOOST_TEST(
      says(text_of(model_of({"u", 2, four}, {"u.1", 1, four})), {"ContractError: ", "'u.1'"}));
  BOOST_TEST(says(text_of(model_of({"u", 1, four}, {"v", 1, four, {"w"}})),
                  {"ContractError: ", "'v'", "'w'"}));
  BOOST_TEST(says(text_of(model_of({"u", 1, four, {"u"}})), {"ContractError: ", "'u'"}));
  // A unit reads at most four groups.
  const Config mixed = sizes({4, 4}).frozen({1});
  const std::string many =
      text_of(model_of({"u", 3, mixed}, {"v", 1, four}, {}, {"w", 1, {}, {"u.0", "u.1", "v"}}));
  BOOST_TEST(says(many, {"ContractError: ", "'w'", "4 groups"}), many);
}

// B85: groups of different shape whose reductions end in another order than expected.
BOOST_AUTO_TEST_CASE(units_of_very_different_sizes_train_together) {
  const Model model = model_of({"large", 2, sizes({3000, 7})}, {"small", 4, sizes({1})},
                               {"middle", 1, sizes({300})});
  const Plan plan{.steps = 2, .micro_steps = 3, .gradient = [](const Place& p) {
                    return static_cast<float>(p.rank + 1);
                  }};
  everywhere(2, model, plan, [](const Outcome& rank) { BOOST_TEST(all_are(rank.weights, -9)); });
}

// An expectation of the test above that can fail: units do see each other's weights.
BOOST_AUTO_TEST_CASE(the_units_that_ran_are_those_that_the_plan_names) {
  const Model model = model_of({"unit", 3, sizes({1})});
  const Plan plan{.runs = [](const Place& p) { return among(p.unit, {0, 2}); }};
  everywhere(1, model, plan, [](const Outcome& rank) {
    BOOST_TEST(rank.seen[0].size() == 2U);
    BOOST_TEST(same_bits(rank.weights, {-1, 0, -1}));
  });
}

BOOST_AUTO_TEST_SUITE_END()
