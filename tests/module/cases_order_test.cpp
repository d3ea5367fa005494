// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Evaluation in any place changes no bit; wrong orders are refused and the step goes on.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_order_test)

using namespace harness;

const zero::Sgd sgd{.learning_rate = 1};

float inexact(const Place& p) {
  return std::sin(static_cast<float>(p.rank * 7 + p.element * 3 + p.unit + p.tensor + 5 * p.step));
}

// B68
BOOST_AUTO_TEST_CASE(forward_in_step_k_sees_the_weights_after_k_steps) {
  const Model model = model_of({"unit", 4, sizes({3, 2})});
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
        for (const Outcome& rank : train(stage, setup, model, sgd, {.steps = 10})) {
          for (std::size_t k = 0; k < 10; ++k) {
            BOOST_TEST(all_are(rank.seen[k], -static_cast<float>(k)));
            BOOST_TEST(all_are(rank.seen_backward[k], -static_cast<float>(k)));
          }
        }
      }
    }
  });
}

// B70 B40
BOOST_AUTO_TEST_CASE(evaluation_in_any_place_changes_no_bit_and_sees_the_newest_weights) {
  const Model model = model_of({"unit", 3, sizes({5, 2})}, {"last", 1, sizes({1})});
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
        const auto run = [&](bool evaluates) {
          return on_ranks(stage, setup, model, sgd, [&](auto& module) {
            std::size_t stale = 0;
            Plan plan{.steps = 4, .micro_steps = 2, .gradient = inexact};
            plan.before = [&](std::size_t k) {
              if (!evaluates) return;
              for (std::size_t i = 0; i < k; ++i) {
                stale += !same_bits(evaluate(module, mode.user_code), weights_of(module));
              }
              auto partly = module.evaluate();  // left before its end
              (void)partly.forward(0);
              if (k == 2) (void)partly.forward(2);
            };
            Outcome outcome = train(module, mode.user_code, plan);
            stale += !same_bits(evaluate(module, mode.user_code), outcome.weights);
            return std::pair(std::move(outcome), stale);
          });
        };
        const auto with = run(true), without = run(false);
        for (std::size_t r = 0; r < 2; ++r) {
          BOOST_TEST(same_bits(with[r].first, without[r].first));
          BOOST_TEST(with[r].second == 0U);
          BOOST_TEST(with[r].first.gathered_bytes == 0U);
        }
      }
    }
  });
}

// B70: the first thing that happens is an evaluation.
BOOST_AUTO_TEST_CASE(evaluation_before_the_first_step_sees_the_initial_weights) {
  const Model model = model_of({"unit", 3, sizes({5})});
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const auto& seen :
         on_ranks(stage, Setup{}.on(2, stage.replicas), model, sgd, [](auto& module) {
           module.initialize([](const auto&, std::size_t) { return 3.0F; });
           return evaluate(module, zero::UserCode::on_caller);
         })) {
      BOOST_TEST(all_are(seen, 3));
    }
  });
}

// B70: a prefix of the units, another order, and a step that goes no further than its forward.
BOOST_AUTO_TEST_CASE(evaluations_of_any_program_and_left_steps_change_no_bit) {
  const Model model = model_of({"unit", 3, sizes({5, 2})}, {"last", 1, sizes({1})});
  zero::Program early = zero::evaluation(4), back = zero::evaluation(4);
  early.computes.resize(2);
  std::reverse(back.computes.begin(), back.computes.end());
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        Setup setup = Setup{}.in(mode).on(2, stage.replicas);
        const auto run = [&](bool evaluates) {
          return on_ranks(stage, setup, model, sgd, [&](auto& module) {
            std::vector<std::string> wrong;
            const auto sees = [&](const zero::Program& program, const char* name) {
              std::vector<float> seen, expected;
              for (const zero::Compute& c : program.computes) {
                const zero::UnitInfo& unit = module.parameters().units()[c.unit];
                for (std::size_t t = 0; t < unit.tensor_count; ++t) {
                  const zero::TensorInfo& tensor =
                      module.parameters().tensors()[unit.first_tensor + t];
                  std::vector<float> whole(tensor.shape.elements());
                  module.read_weights(tensor.name, whole);
                  expected.insert(expected.end(), whole.begin(), whole.end());
                }
              }
              {
                auto pass = module.evaluate({.program = &program});
                for (auto unit : pass.forward()) look(module, mode.user_code, unit, seen);
              }
              module.synchronize();
              if (!same_bits(seen, expected)) wrong.emplace_back(name);
              if (module.gathered_bytes() != 0) wrong.emplace_back("gathered");
            };
            Plan plan{.steps = 4, .micro_steps = 2, .gradient = inexact};
            plan.before = [&](std::size_t k) {
              if (!evaluates) return;
              sees(early, "early exit");
              {  // forward without backward, then an evaluation
                auto step = module.begin_step({.micro_steps = 2});
                for (auto unit : step.forward()) (void)unit;
                const std::string said = error_of([&] { (void)module.evaluate(); });
                if (!says(said, {"evaluate was called within a step", "abandon"})) {
                  wrong.push_back(said);
                }
                if (k % 2 == 0) step.abandon();  // else left at the end of its scope
                if (k % 2 == 0) sees(back, "after abandoning");
              }
              sees(back, "backwards");
              sees(early, "early exit again");
              auto left = module.evaluate({.program = &back});  // begins at the last unit
              (void)left.forward(3);
            };
            Outcome outcome = train(module, mode.user_code, plan);
            return std::pair(std::move(outcome), wrong);
          });
        };
        const auto with = run(true), without = run(false);
        for (std::size_t r = 0; r < 2; ++r) {
          BOOST_TEST(same_bits(with[r].first, without[r].first));
          for (const std::string& text : with[r].second) BOOST_TEST(false, text);
        }
      }
    }
  });
}

// B71
BOOST_AUTO_TEST_CASE(two_modules_share_a_communicator) {
  const Model model = model_of({"unit", 3, sizes({5})});
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
        std::vector<std::vector<float>> p(2), q(2);
        on_threads(2, std::chrono::seconds(10), [&](zero::ThreadCommunicator& comm) {
          const auto mesh = zero::mesh(comm, setup.replicas);
          auto trained = shard(stage, model, mesh, sgd, setup.options);
          auto reference = shard(stage, model, mesh, sgd, setup.options);
          reference.initialize([](const auto&, std::size_t) { return 9.0F; });
          (void)train(trained, mode.user_code, {.steps = 2});
          q[comm.rank()] = evaluate(reference, mode.user_code);
          p[comm.rank()] = evaluate(trained, mode.user_code);
        });
        for (std::size_t r = 0; r < 2; ++r) {
          BOOST_TEST(all_are(p[r], -2));
          BOOST_TEST(all_are(q[r], 9));
        }
      }
    }
  });
}

// B70: another module is evaluated in the middle of a step, as a teacher is.
BOOST_AUTO_TEST_CASE(another_module_may_be_evaluated_within_a_step) {
  const Model model = model_of({"unit", 3, sizes({5})});
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : {modes()[0], modes()[1], modes()[3], modes()[4]}) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
        std::vector<std::vector<float>> p(2);
        std::vector<std::size_t> wrong(2);
        on_threads(2, std::chrono::seconds(10), [&](zero::ThreadCommunicator& comm) {
          const auto mesh = zero::mesh(comm, setup.replicas);
          auto student = shard(stage, model, mesh, sgd, setup.options);
          auto teacher = shard(stage, model, mesh, sgd, setup.options);
          teacher.initialize([](const auto&, std::size_t) { return 9.0F; });
          const auto ask = [&] {
            wrong[comm.rank()] += !all_are(evaluate(teacher, mode.user_code), 9);
          };
          const Plan plan;
          for (int k = 0; k < 2; ++k) {
            auto step = student.begin_step();
            ask();
            for (auto unit : step.forward()) ask();
            for (auto unit : step.backward()) {
              add_gradient(student, mode.user_code, unit, plan, {});
              ask();
            }
            ask();
            (void)step.finish();
          }
          p[comm.rank()] = weights_of(student);
        });
        for (std::size_t r = 0; r < 2; ++r) {
          BOOST_TEST(all_are(p[r], -2));
          BOOST_TEST(wrong[r] == 0U);
        }
      }
    }
  });
}

// Every wrong order is one sentence, and the step goes on as if it had not been tried.
BOOST_AUTO_TEST_CASE(units_in_a_wrong_order_are_refused_and_the_step_goes_on) {
  const Model model = model_of({"unit", 3, sizes({4})});
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : {modes()[0], modes()[1], modes()[2]}) {
      const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
      for (const auto& [texts, weights] : on_ranks(stage, setup, model, sgd, [](auto& module) {
             std::vector<std::string> said;
             auto step = module.begin_step({.micro_steps = 2});
             const auto refused = [&](auto call) {
               said.push_back(error_of([&] { (void)call(); }));
             };
             for (int m = 0; m < 2; ++m) {
               (void)step.forward(0);
               (void)step.forward(1);
               refused([&] { return step.forward(0); });
               refused([&] { return step.forward(1); });
               (void)step.forward(2);
               refused([&] { return step.forward(2); });
               refused([&] { return step.forward(3); });
               for (std::size_t u = 3; u-- > 0;) {
                 auto unit = step.backward(u);
                 for (float& g : unit.template gradients<Parts>().a) g += 1;
                 refused([&] { return step.backward(u); });  // within its own scope
                 refused([&] { return step.forward(0); });
                 refused([&] { return module.begin_step(); });
                 refused([&] { return module.evaluate(); });
               }
               refused([&] { return step.backward(0); });
             }
             refused([&] { return step.forward(0); });
             const zero::StepResult result = step.finish();
             if (result.skipped()) said.push_back("skipped");
             return std::pair(said, weights_of(module));
           })) {
        BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
          for (const std::string& text : texts) {
            BOOST_TEST(says(text, {"ContractError: zero: "}), text);
            BOOST_TEST((says(text, {"unit"}) || says(text, {"within a step"})), text);
          }
          BOOST_TEST(texts.size() == 2 * (4 + 3 * 4 + 1) + 1U);
          BOOST_TEST(all_are(weights, -2));
        }
      }
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
