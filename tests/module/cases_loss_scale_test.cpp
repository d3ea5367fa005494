// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The loss scale follows overflows on all ranks alike and leaves no trace in what is applied.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_loss_scale_test)

using namespace harness;

const zero::Sgd sgd{.learning_rate = 1};
const zero::AdamW adam{.learning_rate = 0.1F, .weight_decay = 0};
constexpr float infinity = std::numeric_limits<float>::infinity();

/// Trains step by step, with what the user's backward multiplied its loss with, and what was
/// returned.
template <class Module>
Outcome train_scaled(Module& module, zero::UserCode where, const Plan& plan) {
  Outcome outcome;
  module.initialize(plan.initial);
  for (std::size_t k = 0; k < plan.steps; ++k) {
    auto step = module.begin_step({.micro_steps = plan.micro_steps});
    Plan scaled = plan;
    scaled.gradient = [&plan, scale = step.loss_scale()](const Place& p) {
      return plan.gradient(p) * scale;
    };
    run_passes(module, step, where, scaled, k, outcome);
    outcome.steps.push_back(step.finish(plan.finish));
  }
  module.synchronize();
  outcome.weights = weights_of(module);
  return outcome;
}

/// Calls f(outcomes by rank) in each stage and some modes.
template <class Optimizer, class F>
void everywhere(std::size_t ranks, const zero::LossScale& scaling, const Model& model,
                const Optimizer& optimizer, const Plan& plan, F f) {
  for_each_stage(ranks, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << " on " << ranks << " ranks, " << mode.name) {
        Setup setup = Setup{}.in(mode).on(ranks, stage.replicas);
        setup.options.loss_scale = scaling;
        f(on_ranks(stage, setup, model, optimizer,
                   [&](auto& module) { return train_scaled(module, mode.user_code, plan); }));
      }
    }
  });
}

// B27: only the rank that owns the element sees the overflow.
BOOST_AUTO_TEST_CASE(an_overflow_on_one_rank_halves_the_scale_on_all_and_changes_nothing_else) {
  const Plan plan{.steps = 2, .gradient = [](const Place& p) {
                    return p.step == 0 && p.rank == 1 && p.element == 2 ? infinity : 1.0F;
                  }};
  everywhere(4, {.initial = 1024}, model_of({"unit", 1, sizes({4})}), adam, plan,
             [](const std::vector<Outcome>& ranks) {
               for (const Outcome& rank : ranks) {
                 BOOST_TEST(rank.steps[0].skipped());
                 BOOST_TEST(rank.steps[0].step == 0);
                 BOOST_TEST(rank.steps[0].loss_scale == 1024);
                 BOOST_TEST(all_are(rank.seen[1], 0));
                 BOOST_TEST(rank.steps[1].applied);
                 BOOST_TEST(rank.steps[1].loss_scale == 512);
                 BOOST_TEST(rank.steps[1].norm == 2.0);
                 for (const float w : rank.weights) BOOST_TEST(std::fabs(w + 0.1F) < 1e-6F);
               }
             });
}

// B29: 16 overflows bring 65536 to 1; the next one is an error on all ranks, and changes nothing.
BOOST_AUTO_TEST_CASE(an_overflow_at_the_floor_is_an_error_on_all_ranks_that_changes_nothing) {
  const Model model = model_of({"unit", 2, sizes({3, 2})});
  const auto overflows = [](const Place& p) { return p.rank == 1 ? infinity : 1.0F; };
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : {modes()[0], modes()[1], modes()[5]}) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        Setup setup = Setup{}.in(mode).on(2, stage.replicas);
        setup.options.loss_scale = {.initial = 65536};
        struct Seen {
          std::vector<double> scales;
          std::string error;
          zero::LossScaleState after;
          bool same = false;
          Outcome then;
        };
        for (const Seen& rank : on_ranks(stage, setup, model, adam, [&](auto& module) {
               Seen seen;
               for (const zero::StepResult& step :
                    train(module, mode.user_code, {.steps = 16, .gradient = overflows}).steps) {
                 seen.scales.push_back(step.skipped() ? step.loss_scale : -1);
               }
               const auto before = module.loss_scale();
               seen.error = error_of(
                   [&] { (void)train(module, mode.user_code, {.gradient = overflows}, false); });
               seen.after = module.loss_scale();
               seen.same = seen.after == before;
               seen.then = train(module, mode.user_code, {}, false);
               return seen;
             })) {
          for (std::size_t k = 0; k < 16; ++k) {
            BOOST_TEST(rank.scales[k] == std::ldexp(65536.0, -static_cast<int>(k)));
          }
          BOOST_TEST(says(rank.error, {"Error: ", "loss scale", "floor of 1", "nothing"}),
                     rank.error);
          BOOST_TEST(rank.after.scale == 1);
          BOOST_TEST(rank.same);
          BOOST_TEST(rank.then.steps[0].applied);
          BOOST_TEST(rank.then.steps[0].step == 1);
          for (const float w : rank.then.weights) BOOST_TEST(std::fabs(w + 0.1F) < 1e-6F);
        }
      }
    }
  });
}

// B31: rank 2 owns nothing, and the counters of all ranks agree.
BOOST_AUTO_TEST_CASE(ranks_without_elements_follow_the_scale_and_count_the_same_steps) {
  const Plan plan{.steps = 5, .gradient = [](const Place& p) {
                    return p.step == 2 && p.rank == 0 ? infinity : 1.0F;
                  }};
  everywhere(3, {.initial = 8, .growth_interval = 2}, model_of({"unit", 1, sizes({2})}), sgd, plan,
             [](const std::vector<Outcome>& ranks) {
               const double scales[] = {8, 8, 16, 8, 8};
               for (const Outcome& rank : ranks) {
                 for (std::size_t k = 0; k < 5; ++k) {
                   BOOST_TEST(rank.steps[k].loss_scale == scales[k]);
                   BOOST_TEST(rank.steps[k].skipped() == (k == 2));
                 }
                 BOOST_TEST(rank.steps[4].step == 4);
                 BOOST_TEST(all_are(rank.weights, -4));
               }
             });
}

// B17: the norm is that of the true gradient in each stage and step, however the scale moves.
BOOST_AUTO_TEST_CASE(a_scaled_run_has_the_bits_of_the_run_without_a_scale) {
  const Model model = model_of({"unit", 2, sizes({5, 7})}, {"wide", 1, sizes({33})});
  const Plan plan{.steps = 4,
                  .micro_steps = 2,
                  .gradient =
                      [](const Place& p) {
                        return std::sin(static_cast<float>(p.rank + 3 * p.element + p.step));
                      },
                  .finish = {.max_norm = 2}};
  for (const std::size_t ranks : {1, 3}) {
    std::vector<Outcome> plain;
    everywhere(ranks, zero::LossScale::fixed(1), model, adam, plan,
               [&](const std::vector<Outcome>& o) { plain.push_back(o[0]); });
    for (const zero::LossScale& scaling :
         {zero::LossScale::fixed(0x1p10), zero::LossScale{.initial = 4, .growth_interval = 1}}) {
      std::size_t at = 0;
      everywhere(ranks, scaling, model, adam, plan, [&](const std::vector<Outcome>& outcomes) {
        for (const Outcome& rank : outcomes) BOOST_TEST(same_bits(rank, plain[at]));
        BOOST_TEST(outcomes[0].steps[3].loss_scale == (scaling.growth == 1 ? 0x1p10 : 32.0));
        ++at;
      });
    }
  }
}

// B17: in a narrow type.
BOOST_AUTO_TEST_CASE(bf16_weights_with_a_fixed_scale_move_exactly_in_each_stage) {
  const Plan plan{.steps = 4, .gradient = [](const Place&) { return 2.0F; }};
  for_each_stage(2, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      Setup setup = Setup{}.on(2, stage.replicas);
      setup.options.loss_scale = zero::LossScale::fixed(128);
      for (const Outcome& rank : on_ranks<zero::bf16>(
               stage, setup, model_of({"unit", 1, sizes({4})}), sgd, [&](auto& module) {
                 return train_scaled(module, zero::UserCode::on_caller, plan);
               })) {
        for (std::size_t k = 0; k < 4; ++k) {
          BOOST_TEST(rank.steps[k].norm == 4.0);
          BOOST_TEST(all_are(rank.seen[k], -2.0F * static_cast<float>(k)));
        }
        BOOST_TEST(all_are(rank.weights, -8));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_fixed_scale_stays_whatever_overflows) {
  const Plan plan{.steps = 3,
                  .gradient = [](const Place& p) { return p.step < 2 ? infinity : 1.0F; }};
  everywhere(2, zero::LossScale::fixed(64), model_of({"unit", 1, sizes({4})}), sgd, plan,
             [](const std::vector<Outcome>& ranks) {
               for (const Outcome& rank : ranks) {
                 BOOST_TEST(rank.steps[1].skipped());
                 BOOST_TEST(rank.steps[2].loss_scale == 64);
                 BOOST_TEST(all_are(rank.weights, -1));
               }
             });
}

BOOST_AUTO_TEST_CASE(a_run_goes_on_from_the_loss_scale_that_was_kept) {
  const Model model = model_of({"unit", 1, sizes({4})});
  Setup setup = Setup{}.on(2);
  setup.options.loss_scale = {.initial = 16, .growth_interval = 3, .hysteresis = 2};
  const auto overflows = [](const Place& p) { return p.step == 0 ? infinity : 1.0F; };
  const auto kept = on_ranks<zero::Zero2>(setup, model, sgd, [&](auto& module) {
    (void)train(module, zero::UserCode::on_caller, {.steps = 3, .gradient = overflows});
    return module.loss_scale();
  });
  BOOST_TEST((kept[1] == zero::LossScaleState{.scale = 16, .good_steps = 2, .overflows = 1}));
  for (const auto& [grown, error] : on_ranks<zero::Zero3>(setup, model, sgd, [&](auto& module) {
         module.set_loss_scale(kept[0]);
         (void)train(module, zero::UserCode::on_caller, {});
         const auto after = module.loss_scale();
         return std::pair(after, error_of([&] { module.set_loss_scale({.scale = 0.5}); }));
       })) {
    BOOST_TEST((grown == zero::LossScaleState{.scale = 32}));
    BOOST_TEST(says(error, {"ContractError: ", "set_loss_scale", "floor"}), error);
  }
}

BOOST_AUTO_TEST_CASE(what_a_checkpoint_lists_holds_the_loss_scale_that_moves) {
  const Model model = model_of({"unit", 1, sizes({4})});
  for (const bool moves : {false, true}) {
    Setup setup = Setup{}.on(2);
    setup.options.loss_scale = moves ? zero::LossScale{.initial = 16} : zero::LossScale::fixed(16);
    for (const auto& [listed, before, after] :
         on_ranks<zero::Zero3>(setup, model, sgd, [](auto& module) {
           (void)train(module, zero::UserCode::on_caller, {.steps = 2});
           const zero::HeldState state = module.held_state();
           const auto first = module.loss_scale();
           module.set_loss_scale({.scale = 8});
           module.restore(state);
           return std::tuple(state.scalars.size(), first, module.loss_scale());
         })) {
      BOOST_TEST(listed == (moves ? 3U : 0U));
      BOOST_TEST((before == zero::LossScaleState{.scale = 16, .good_steps = moves ? 2 : 0}));
      BOOST_TEST((after == (moves ? before : zero::LossScaleState{.scale = 8})));
    }
  }
}

BOOST_AUTO_TEST_CASE(ranks_with_different_loss_scales_get_an_error_and_update_nothing) {
  for_each_stage(2, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      Setup setup = Setup{}.on(2, stage.replicas);
      setup.options.loss_scale = {.initial = 16};
      for (const auto& [error, after] :
           on_ranks(stage, setup, model_of({"unit", 1, sizes({4})}), sgd, [&](auto& module) {
             const double mine = 8 + static_cast<double>(module.mesh().world.rank());
             module.set_loss_scale({.scale = mine});
             const std::string text =
                 error_of([&] { (void)train(module, zero::UserCode::on_caller, {}); });
             return std::pair(text,
                              std::pair(module.loss_scale().scale == mine, weights_of(module)));
           })) {
        BOOST_TEST(says(error, {"ContractError: ", "loss scale", "nothing was updated"}), error);
        BOOST_TEST(after.first);
        BOOST_TEST(all_are(after.second, 0));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_loss_scale_that_makes_no_sense_is_refused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const zero::LossScale& scaling : {zero::LossScale{.initial = 0},
                                         {.initial = nan},
                                         {.initial = 1e60},
                                         {.floor = -1},
                                         {.initial = 1, .floor = 2},
                                         {.growth_interval = 0},
                                         {.hysteresis = 0},
                                         {.growth = 0.5},
                                         {.backoff = 0},
                                         {.backoff = 2},
                                         zero::LossScale::fixed(-1)}) {
    Setup setup;
    setup.options.loss_scale = scaling;
    const std::string text = error_of([&] {
      train<zero::Zero1>(setup, model_of({"unit", 1, sizes({1})}), sgd, {});
    });
    BOOST_TEST(says(text, {"ContractError: ", "LossScale"}), text);
  }
}

// Gradients of zero never overflow: the scale grows as far as it may, and no step is refused.
BOOST_AUTO_TEST_CASE(a_scale_grows_no_further_than_the_divisor_allows) {
  Setup setup = Setup{}.on(2);
  setup.options.loss_scale = {.initial = 0x1p125, .growth_interval = 1};
  const Plan plan{.steps = 4, .gradient = [](const Place&) { return 0.0F; }};
  for (const double scale : on_ranks(named<zero::Zero3>("stage 3"), setup,
                                     model_of({"unit", 1, sizes({5})}), sgd, [&](auto& module) {
                                       (void)train(module, zero::UserCode::on_caller, plan);
                                       return module.loss_scale().scale;
                                     })) {
    BOOST_TEST(scale == 0x1p126);
  }
}

BOOST_AUTO_TEST_SUITE_END()
