// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// In a program with further axes beside zero's, norm and decisions are those of the whole model.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_axes_test)

using namespace harness;

const zero::Sgd sgd{.learning_rate = 1};
constexpr float infinity = std::numeric_limits<float>::infinity();

Config with_replicated(Config config, std::size_t tensor) {
  config.options[tensor] = config.options[tensor] | zero::replicated;
  return config;
}
/// Tensor a is another part of the model on each rank of the axes, b is the same on all.
const Model& split_model() {
  static const Model model = model_of({"unit", 1, with_replicated(sizes({3, 1}), 1)});
  return model;
}
/// Which part of the model a module holds, from 0.
template <class Module>
std::size_t part_of(const Module& module) {
  std::size_t part = 0;
  for (const auto& axis : module.mesh().axes) part = part * axis.size() + axis.rank();
  return part;
}
/// Trains in each stage on `ranks` ranks and further axes; f(outcome, thread) judges.
template <class PlanOf, class F>
void everywhere(std::size_t ranks, const std::vector<std::size_t>& axes, double order,
                const zero::LossScale& scaling, PlanOf plan_of, F f) {
  for_each_stage(ranks, [&](const NamedStage& stage) {
    for (const Mode& mode : {modes()[0], modes()[1], modes()[5]}) {
      BOOST_TEST_CONTEXT(stage << " on " << ranks << " ranks, " << mode.name) {
        Setup setup = Setup{}.in(mode).on(ranks, stage.replicas).with_axes(axes);
        setup.options.norm = order;
        setup.options.loss_scale = scaling;
        const auto outcomes = on_ranks(stage, setup, split_model(), sgd, [&](auto& module) {
          const Plan plan = plan_of(part_of(module));
          return train(module, mode.user_code, plan);
        });
        for (const Outcome& rank : outcomes) {
          f(rank);
          for (std::size_t k = 0; k < rank.steps.size(); ++k) {
            BOOST_TEST(same_bits(rank.steps[k].norm, outcomes[0].steps[k].norm));
          }
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(the_norm_is_that_of_all_parts_and_counts_once_what_they_share) {
  // Elements of a are 2 and 4 in the two parts, that of b is 1.
  const auto plan_of = [](std::size_t part) {
    return Plan{.gradient = [part](const Place& p) {
      return p.tensor == 1 ? 1.0F : part == 0 ? -2.0F : 4.0F;
    }};
  };
  const auto norm_is = [](double expected) {
    return [expected](const Outcome& rank) {
      BOOST_TEST(std::fabs(rank.steps[0].norm - expected) <= 1e-14 * expected);
    };
  };
  const zero::LossScale none = zero::LossScale::fixed(1);
  for (const std::size_t ranks : {1, 2, 4}) {
    everywhere(ranks, {2}, 2, none, plan_of, norm_is(std::sqrt(3 * 4 + 3 * 16 + 1)));
    everywhere(ranks, {2}, 1, none, plan_of, norm_is(3 * 2 + 3 * 4 + 1));
    everywhere(ranks, {2}, infinity, none, plan_of, norm_is(4));
  }
  everywhere(2, {2, 2}, 2, none, plan_of, norm_is(std::sqrt(3 * 4 + 9 * 16 + 1)));
  everywhere(1, {3, 2}, 1, none, plan_of, norm_is(3 * 2 + 15 * 4 + 1));
}

BOOST_AUTO_TEST_CASE(all_parts_clip_by_the_norm_of_the_whole) {
  const auto plan_of = [](std::size_t) {
    return Plan{.gradient = [](const Place& p) { return p.tensor == 0 ? 2.0F : 1.0F; },
                .finish = {.max_norm = 2.5}};  // of 5
  };
  everywhere(2, {2}, 2, zero::LossScale::fixed(1), plan_of, [](const Outcome& rank) {
    BOOST_TEST(rank.steps[0].norm == 5.0);
    BOOST_TEST(same_bits(rank.weights, {-1, -1, -1, -0.5F}));
  });
}

// B27: also where the gradient that is not finite is one that does not count.
BOOST_AUTO_TEST_CASE(what_is_not_finite_in_one_part_makes_all_parts_skip_and_halves_the_scale) {
  for (const std::size_t tensor : {0, 1}) {
    const auto plan_of = [tensor](std::size_t part) {
      return Plan{.steps = 2, .gradient = [=](const Place& p) {
                    const bool here = part == 1 && p.step == 0 && p.rank == 1 && p.tensor == tensor;
                    return here ? infinity : p.step == 0 ? 1.0F : 4.0F;
                  }};
    };
    everywhere(2, {2, 2}, 2, {.initial = 8}, plan_of, [](const Outcome& rank) {
      BOOST_TEST(rank.steps[0].skipped());
      BOOST_TEST(rank.steps[0].loss_scale == 8);
      BOOST_TEST(rank.steps[1].applied);
      BOOST_TEST(rank.steps[1].loss_scale == 4);
      BOOST_TEST(all_are(rank.weights, -1));
    });
  }
}

BOOST_AUTO_TEST_CASE(parts_that_finish_in_different_ways_get_an_error_and_update_nothing) {
  const Model model = model_of({"unit", 2, sizes({3})});
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const bool in_options : {false, true}) {  // or one rank of one part runs another unit
      BOOST_TEST_CONTEXT(stage << (in_options ? ", options" : ", units")) {
        for (const auto& [text, weights] :
             on_ranks(stage, Setup{}.on(2, stage.replicas).with_axes({2}), model, sgd,
                      [&](auto& module) {
                        const bool differs = part_of(module) == 1;
                        Plan plan{.micro_steps = 2};
                        if (in_options && differs) plan.finish.max_norm = 1;
                        if (!in_options && differs) {
                          plan.runs = [](const Place& p) {
                            return p.unit == 0 || p.micro_step == p.rank;
                          };
                        }
                        std::string said = error_of([&] {
                          Outcome outcome;
                          auto step = module.begin_step({.micro_steps = 2});
                          run_passes(module, step, zero::UserCode::on_caller, plan, 0, outcome);
                          (void)step.finish(plan.finish);
                        });
                        return std::pair(said, weights_of(module));
                      })) {
          BOOST_TEST(says(text, {"ContractError: ", "nothing was updated"}), text);
          BOOST_TEST(all_are(weights, 0));
        }
      }
    }
  });
}

// As in a pipeline: each part has other units, and its schedule other positions.
BOOST_AUTO_TEST_CASE(parts_may_be_different_models) {
  std::vector<Outcome> outcomes(6);
  on_threads(6, std::chrono::seconds(10), [&](zero::ThreadCommunicator& comm) {
    const std::size_t part = comm.rank() % 3;
    const Model model = model_of({"unit", part + 1, sizes({4})}, {"wide", part, sizes({6, 2})});
    auto sharded =
        zero::shard<zero::Zero3>(model, mesh_of(Setup{}.on(2).with_axes({3}), comm), sgd);
    zero::Module<Model, zero::Sgd, zero::ThreadCommunicator, float>& module = sharded;
    outcomes[comm.rank()] = train(module, zero::UserCode::on_caller, {.micro_steps = part + 1});
  });
  // 4 elements of 1, then 8 + 8 of 2, then 12 + 16 of 3.
  for (const Outcome& rank : outcomes) {
    BOOST_TEST(rank.steps[0].norm == std::sqrt(4 + 16 * 4 + 28 * 9));
  }
}

BOOST_AUTO_TEST_CASE(bytes_held_and_sent_are_those_of_the_formula_with_further_axes) {
  for (const double order : {2.0, 1.0}) {
    for_each_stage(2, [&](const NamedStage& stage) {
      BOOST_TEST_CONTEXT(stage << ", order " << order) {
        Setup setup = Setup{}.on(2, stage.replicas).with_axes({2, 3});
        setup.options.norm = order;
        for (const auto& [held, sent] :
             on_ranks(stage, setup, split_model(), sgd, [&](auto& module) {
               (void)train(module, zero::UserCode::on_caller, {});
               const auto everyone = [&] {  // has read what this rank sent
                 for (int twice = 0; twice < 2; ++twice) {
                   for (const auto& axis : module.mesh().axes) axis.barrier();
                   module.mesh().world.barrier();
                 }
               };
               everyone();
               const zero::Traffic before = module.sent();
               {
                 Outcome outcome;
                 auto step = module.begin_step();
                 run_passes(module, step, zero::UserCode::on_caller, {}, 0, outcome);
                 (void)step.finish();
               }
               module.synchronize();
               everyone();
               const zero::Traffic after = module.sent();
               const zero::BytesSent predicted = module.predicted_bytes_sent();
               const std::size_t needed = zero::bytes_needed(stage.value, split_model(),
                                                             module.mesh(), sgd, setup.options);
               everyone();
               return std::pair(
                   module.bytes_held() == module.predicted_bytes_held() &&
                       module.bytes_held().total() == needed,
                   after.all_gather - before.all_gather == predicted.all_gather &&
                       after.reduce_scatter - before.reduce_scatter == predicted.reduce_scatter &&
                       after.all_reduce - before.all_reduce == predicted.all_reduce);
             })) {
          BOOST_TEST(held);
          BOOST_TEST(sent);
        }
      }
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
