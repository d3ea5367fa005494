// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The norm is that of the true gradient, each element counted once; clipping and skipping follow
// it.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_norms_test)

using namespace harness;

const zero::Sgd sgd{.learning_rate = 1};
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Always whole: the units before the first `Units`.
template <std::size_t Units>
struct KeepFirst {
  using shards = zero::Nothing;
  static constexpr bool resident(const zero::ScheduleBuilder&, std::size_t unit) {
    return unit < Units;
  }
};

/// Calls f(outcome) for each rank, stage and mode.
template <class F>
void everywhere(std::size_t ranks, const Model& model, const Plan& plan, F f,
                bool in_all_modes = false, double order = 2) {
  for_each_stage(ranks, [&](const NamedStage& stage) {
    for (const Mode& mode : modes()) {
      if (!in_all_modes && &mode != &modes()[0]) continue;
      BOOST_TEST_CONTEXT(stage << " on " << ranks << " ranks, " << mode.name) {
        Setup setup = Setup{}.in(mode).on(ranks, stage.replicas);
        setup.options.norm = order;
        const auto ranks_of = train(stage, setup, model, sgd, plan);
        for (const Outcome& outcome : ranks_of) {
          f(outcome);
          for (std::size_t k = 0; k < outcome.steps.size(); ++k) {
            BOOST_TEST(same_bits(outcome.steps[k].norm, ranks_of[0].steps[k].norm));
          }
        }
      }
    }
  });
}

// B20
BOOST_AUTO_TEST_CASE(the_norm_is_that_of_the_average_and_the_same_on_all_ranks) {
  const Plan plan{.gradient = [](const Place& p) { return p.rank == 0 ? 1.0F : 3.0F; }};
  everywhere(
      2, model_of({"unit", 1, sizes({4})}), plan,
      [](const Outcome& rank) { BOOST_TEST(rank.steps[0].norm == 4.0); }, true);
}

// What an earlier step left of a unit's norm is not that of a step whose program leaves it out.
BOOST_AUTO_TEST_CASE(a_unit_that_a_program_leaves_out_has_no_part_in_the_norm) {
  const zero::Program only{{{zero::Op::forward, 1, 0}, {zero::Op::backward, 1, 0}}, 1, true};
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const float left : {2.0F, infinity}) {
      const Setup setup = Setup{}.on(2, stage.replicas);
      // Of three kinds; a program that needs no more than the usual order need not be listed.
      const Model model =
          model_of({"first", 1, sizes({7})}, {"unit", 1, sizes({5})}, {"last", 1, sizes({2})});
      const auto ranks = on_ranks(stage, setup, model, sgd, [&](auto& module) {
        Plan plan{.gradient = [&](const Place& p) { return p.unit == 1 ? 3.0F : left; }};
        module.initialize(plan.initial);
        std::vector<double> norms;
        for (const zero::Program* program : {(const zero::Program*)nullptr, &only}) {
          auto step = module.begin_step({.program = program});
          for (auto unit : step.pass()) {
            const Place place{0, 0, 0, unit.index(), 0, 0};
            if (!unit.is_backward()) continue;
            add_gradient(module, zero::UserCode::on_caller, unit, plan, place);
          }
          norms.push_back(step.finish().norm);
        }
        return norms[1];
      });
      for (const double norm : ranks) BOOST_TEST(norm == std::sqrt(45.0), stage << ", " << left);
    }
  });
}

// B18, and an odd size on more ranks than elements.
BOOST_AUTO_TEST_CASE(neither_padding_nor_empty_shards_count) {
  for (const std::size_t ranks : {1, 2, 3, 4, 5}) {
    everywhere(ranks, model_of({"unit", 1, sizes({1, 0, 3})}), {},
               [](const Outcome& rank) { BOOST_TEST(rank.steps[0].norm == 2.0); });
  }
}

// B19
BOOST_AUTO_TEST_CASE(a_unit_that_stays_whole_counts_once_beside_sharded_ones) {
  const Model model = model_of({"small", 1, sizes({4})}, {"large", 1, sizes({12})});
  using Resident =
      zero::Stage<zero::ShardOptimizer<>, zero::ShardGrads<>, zero::ShardParams<>, KeepFirst<1>>;
  for (const Mode& mode : tried_modes()) {
    BOOST_TEST_CONTEXT(mode.name) {
      const Plan plan{.steps = 3};
      for (const Outcome& rank : train<Resident>(Setup{}.in(mode).on(4), model, sgd, plan)) {
        BOOST_TEST(rank.steps[0].norm == 4.0);
        BOOST_TEST(all_are(rank.weights, -3));
        BOOST_TEST(all_are(rank.seen[2], -2));
      }
    }
  }
}

// B26
BOOST_AUTO_TEST_CASE(frozen_tensors_do_not_count) {
  const Plan plan{.gradient = [](const Place&) { return 3.0F; }};
  everywhere(2, model_of({"unit", 2, sizes({2, 5}).frozen({1})}), plan, [](const Outcome& rank) {
    BOOST_TEST(rank.steps[0].norm == 6.0);
    BOOST_TEST(same_bits(rank.weights, {-3, -3, 0, 0, 0, 0, 0, -3, -3, 0, 0, 0, 0, 0}));
  });
}

BOOST_AUTO_TEST_CASE(a_tied_tensor_counts_once) {
  const Model model = model_of({"embed", 1, sizes({4})}, {}, {}, {"head", 1, {}, {"embed"}});
  const Plan plan{.gradient = [](const Place& p) { return p.unit == 0 ? 3.0F : 2.0F; }};
  everywhere(
      2, model, plan,
      [](const Outcome& rank) {
        BOOST_TEST(rank.steps[0].norm == 10.0);
        BOOST_TEST(all_are(rank.weights, -5));
      },
      true);
}

// B24
BOOST_AUTO_TEST_CASE(a_gradient_of_zero_is_a_gradient) {
  const Plan plan{.gradient = [](const Place&) { return 0.0F; }, .finish = {.max_norm = 1}};
  everywhere(2, model_of({"unit", 2, sizes({3})}), plan, [](const Outcome& rank) {
    BOOST_TEST(rank.steps[0].applied);
    BOOST_TEST(rank.steps[0].norm == 0.0);
    BOOST_TEST(rank.steps[0].step == 1);
    BOOST_TEST(all_are(rank.weights, 0));
  });
}

// B24 B27
BOOST_AUTO_TEST_CASE(one_element_that_is_not_finite_on_one_rank_makes_all_ranks_skip) {
  const Model model = model_of({"unit", 3, sizes({5, 2})});
  for (const float bad : {infinity, -infinity, not_a_number}) {
    const Plan plan{.steps = 3,
                    .micro_steps = 2,
                    .gradient =
                        [=](const Place& p) {
                          const bool here = p.step == 1 && p.micro_step == 0 && p.rank == 1 &&
                                            p.unit == 1 && p.tensor == 0 && p.element == 4;
                          return here ? bad : 1.0F;
                        },
                    .finish = {.max_norm = 100}};
    everywhere(
        4, model, plan,
        [](const Outcome& rank) {
          BOOST_TEST(rank.steps[0].applied);
          BOOST_TEST(rank.steps[1].skipped());
          BOOST_TEST(std::isinf(rank.steps[1].norm));
          BOOST_TEST(rank.steps[1].step == 1);
          BOOST_TEST(rank.steps[2].applied);
          BOOST_TEST(rank.steps[2].step == 2);
          BOOST_TEST(all_are(rank.weights, -4));
          BOOST_TEST(all_are(rank.seen[4], -2));  // what the skipped step left
        },
        true);
  }
}

BOOST_AUTO_TEST_CASE(infinities_of_opposite_sign_do_not_cancel) {
  const Plan plan{.gradient = [](const Place& p) { return p.rank == 0 ? infinity : -infinity; }};
  everywhere(2, model_of({"unit", 1, sizes({3})}), plan, [](const Outcome& rank) {
    BOOST_TEST(rank.steps[0].skipped());
    BOOST_TEST(all_are(rank.weights, 0));
  });
}

BOOST_AUTO_TEST_CASE(finite_gradients_whose_sum_is_not_finite_make_all_ranks_skip) {
  const Plan plan{.gradient = [](const Place& p) { return p.element == 1 ? 3e38F : 1.0F; }};
  everywhere(2, model_of({"unit", 1, sizes({3})}), plan, [](const Outcome& rank) {
    BOOST_TEST(rank.steps[0].skipped());
    BOOST_TEST(all_are(rank.weights, 0));
  });
}

BOOST_AUTO_TEST_CASE(a_small_divisor_that_makes_a_gradient_infinite_makes_all_ranks_skip) {
  const Plan plan{.gradient = [](const Place&) { return 1e10F; }, .finish = {.divisor = 1e-30}};
  everywhere(2, model_of({"unit", 1, sizes({3})}), plan, [](const Outcome& rank) {
    BOOST_TEST(rank.steps[0].skipped());
    BOOST_TEST(all_are(rank.weights, 0));
  });
}

BOOST_AUTO_TEST_CASE(large_gradients_have_a_finite_norm) {
  const Plan plan{.gradient = [](const Place&) { return 0x1p100F; }};
  everywhere(2, model_of({"unit", 1, sizes({4})}), plan, [](const Outcome& rank) {
    BOOST_TEST(rank.steps[0].applied);
    BOOST_TEST(rank.steps[0].norm == 0x1p101);
    BOOST_TEST(all_are(rank.weights, -0x1p100F));
  });
}

// B25
BOOST_AUTO_TEST_CASE(clipping_scales_what_is_applied_and_reports_the_norm_before) {
  const Model model = model_of({"unit", 1, sizes({1, 1})});
  const auto gradient = [](const Place& p) { return p.tensor == 0 ? 3.0F : 4.0F; };
  everywhere(2, model, {.gradient = gradient, .finish = {.max_norm = 1}}, [](const Outcome& rank) {
    BOOST_TEST(rank.steps[0].norm == 5.0);
    BOOST_TEST(std::fabs(rank.weights[0] + 0.6F) <= 1e-6F);
    BOOST_TEST(std::fabs(rank.weights[1] + 0.8F) <= 1e-6F);
  });
  for (const double limit : {5.0, 10.0}) {  // exactly at the limit, and below it
    everywhere(2, model, {.gradient = gradient, .finish = {.max_norm = limit}},
               [](const Outcome& rank) {
                 BOOST_TEST(same_bits(rank.weights, {-3, -4}));
               });
  }
  everywhere(2, model, {.gradient = gradient, .finish = {.max_norm = 0}},
             [](const Outcome& rank) { BOOST_TEST(all_are(rank.weights, 0)); });
}

BOOST_AUTO_TEST_CASE(stages_agree_bit_for_bit_when_they_clip_inexact_gradients) {
  const Model model = model_of({"unit", 3, sizes({7, 5, 3})}, {"last", 1, sizes({33})});
  const Plan plan{.steps = 4,
                  .micro_steps = 2,
                  .gradient =
                      [](const Place& p) {
                        return std::sin(static_cast<float>(p.rank * 7 + p.element * 3 + p.unit +
                                                           p.tensor + p.step));
                      },
                  .finish = {.max_norm = 0.7}};
  for (const std::size_t ranks : {1, 2, 3}) {
    for (const double order : {2.0, 3.0}) {
      Setup setup = Setup{}.on(ranks);
      setup.options.norm = order;
      const std::vector<Outcome> plain = train<zero::Ddp>(setup, model, sgd, plan);
      for_each_stage(ranks, [&](const NamedStage& stage) {
        if (stage.replicas != 1) return;
        for (const Mode& mode : tried_modes()) {
          BOOST_TEST_CONTEXT(stage << " on " << ranks << " ranks, " << mode.name) {
            const auto outcomes = train(stage, setup.in(mode, 17), model, sgd, plan);
            for (const Outcome& rank : outcomes) BOOST_TEST(same_bits(rank, plain[0]));
          }
        }
      });
    }
  }
}

// B22
BOOST_AUTO_TEST_CASE(the_norm_may_be_of_another_order_than_two) {
  const Model model = model_of({"unit", 1, sizes({1, 1, 1})});
  const auto gradient = [](const Place& p) { return -3.0F - static_cast<float>(p.tensor); };
  for (const auto& [order, norm] : {std::pair{1.0, 12.0},
                                    {2.0, std::sqrt(50.0)},
                                    {3.0, 6.0},
                                    {1e3, 5.0},
                                    {static_cast<double>(infinity), 5.0}}) {
    for (const std::size_t ranks : {1, 3, 4}) {
      const double expected = norm;
      everywhere(
          ranks, model, {.gradient = gradient, .finish = {.max_norm = expected / 2}},
          [&](const Outcome& rank) {
            BOOST_TEST(std::fabs(rank.steps[0].norm - expected) <= 1e-14 * expected);
            for (std::size_t i = 0; i < 3; ++i) {
              BOOST_TEST(std::fabs(rank.weights[i] - static_cast<float>(i + 3) / 2) <= 1e-6F);
            }
          },
          ranks == 3, order);
    }
  }
  // Exact where no root is taken.
  everywhere(
      2, model, {.gradient = gradient},
      [](const Outcome& rank) { BOOST_TEST(rank.steps[0].norm == 12.0); }, true, 1);
}

// B18 B19 for other orders: each element counts once, padding and empty shards not at all.
BOOST_AUTO_TEST_CASE(norms_of_other_orders_count_each_element_once) {
  const Model model = model_of({"unit", 2, sizes({3, 1})}, {"fixed", 1, sizes({2, 1}).frozen({0})});
  const Plan plan{.gradient = [](const Place& p) { return p.unit == 2 ? -8.0F : 2.0F; }};
  for (const std::size_t ranks : {1, 2, 4, 5}) {
    everywhere(
        ranks, model, plan, [](const Outcome& rank) { BOOST_TEST(rank.steps[0].norm == 24.0); },
        false, 1);
    everywhere(
        ranks, model, plan, [](const Outcome& rank) { BOOST_TEST(rank.steps[0].norm == 8.0); },
        false, infinity);
  }
}

// B24 for other orders
BOOST_AUTO_TEST_CASE(what_is_not_finite_makes_all_ranks_skip_whatever_the_order) {
  const Model model = model_of({"unit", 2, sizes({5})});
  for (const double order : {1.0, 3.0, static_cast<double>(infinity)}) {
    for (const float bad : {infinity, not_a_number}) {
      const Plan plan{.steps = 2, .gradient = [=](const Place& p) {
                        const bool here = p.step == 0 && p.rank == 1 && p.element == 3;
                        return here ? bad : 1.0F;
                      }};
      everywhere(
          4, model, plan,
          [](const Outcome& rank) {
            BOOST_TEST(rank.steps[0].skipped());
            BOOST_TEST(std::isinf(rank.steps[0].norm));
            BOOST_TEST(rank.steps[1].applied);
            BOOST_TEST(all_are(rank.weights, -1));
          },
          false, order);
    }
    const Plan zeros{.gradient = [](const Place&) { return 0.0F; }, .finish = {.max_norm = 1}};
    everywhere(
        2, model, zeros,
        [](const Outcome& rank) {
          BOOST_TEST(rank.steps[0].applied);
          BOOST_TEST(rank.steps[0].norm == 0.0);
        },
        false, order);
  }
}

BOOST_AUTO_TEST_CASE(powers_of_large_and_small_gradients_neither_overflow_nor_vanish) {
  const Model model = model_of({"unit", 1, sizes({4, 4})});
  for (const float size : {0x1p100F, 0x1p-100F}) {
    const Plan plan{.gradient = [=](const Place&) { return size; }};
    everywhere(
        2, model, plan,
        [&](const Outcome& rank) {
          BOOST_TEST(rank.steps[0].applied);
          BOOST_TEST(rank.steps[0].norm == size * std::pow(8.0, 1.0 / 20));
          BOOST_TEST(all_are(rank.weights, -size));
        },
        false, 20);
  }
  // The 1-norm of finite elements may exceed what a float holds: then all ranks skip, and say so.
  const Plan plan{.gradient = [](const Place&) { return 1.5e38F; }};
  everywhere(
      2, model_of({"unit", 1, sizes({2, 2})}), plan,
      [](const Outcome& rank) {
        BOOST_TEST(rank.steps[0].skipped());
        BOOST_TEST(std::isinf(rank.steps[0].norm));
        BOOST_TEST(all_are(rank.weights, 0));
      },
      false, 1);
}

BOOST_AUTO_TEST_CASE(an_order_below_one_is_no_norm) {
  for (const double order : {0.5, 0.0, -1.0, static_cast<double>(not_a_number)}) {
    Setup setup;
    setup.options.norm = order;
    const std::string text = error_of([&] {
      train<zero::Zero1>(setup, model_of({"unit", 1, sizes({1})}), sgd, {});
    });
    BOOST_TEST(says(text, {"ContractError: ", "norm", "from 1"}), text);
  }
}

BOOST_AUTO_TEST_CASE(a_divisor_or_limit_that_is_none_is_refused) {
  const Model model = model_of({"unit", 1, sizes({3})});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const auto text_of = [&](zero::FinishOptions finish) {
    return error_of([&] { train<zero::Zero2>(Setup{}.on(2), model, sgd, {.finish = finish}); });
  };
  for (const double divisor : {-1.0, nan, inf, 1e-60, 1e60}) {
    BOOST_TEST(says(text_of({.divisor = divisor}), {"ContractError: ", "divisor"}));
  }
  for (const double limit : {-1.0, nan}) {
    BOOST_TEST(says(text_of({.max_norm = limit}), {"ContractError: ", "max_norm"}));
  }
}

BOOST_AUTO_TEST_SUITE_END()
