// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Every wrong use is refused with one sentence that says what to do, and the module goes on.
#include <boost/test/unit_test.hpp>
#include <limits>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_wrong_use_test)

using namespace harness;

const zero::Sgd sgd{.learning_rate = 1};
const Model& four_units() {
  static const Model model = model_of({"unit", 4, sizes({5, 2})});
  return model;
}

BOOST_AUTO_TEST_CASE(a_wrong_use_is_one_sentence_that_says_what_to_do) {
  const auto check = [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
      const auto ranks = on_ranks(stage, setup, four_units(), sgd, [&](auto& module) {
        std::vector<std::pair<std::string, std::string>>
            said;  // what was expected in the text, the text
        const auto expect = [&](const char* part, auto call) {
          said.emplace_back(part, error_of([&] { (void)call(); }));
        };
        std::vector<float> two(2), five(5);
        expect("at least one", [&] { return module.begin_step({.micro_steps = 0}); });
        expect("max_micro_steps", [&] { return module.begin_step({.micro_steps = 17}); });
        expect("'nothing'", [&] {
          module.read_weights("nothing", two);
          return 0;
        });
        expect("5 elements, got 2", [&] {
          module.read_weights("unit.0.a", two);
          return 0;
        });
        expect("5 elements, got 2", [&] {
          module.write_weights("unit.0.a", two);
          return 0;
        });
        expect("state 7", [&] {
          module.read_state("unit.0.a", 7, five);
          return 0;
        });
        expect("state 7", [&] {
          module.write_state("unit.0.a", 7, five);
          return 0;
        });
        expect("got -1", [&] {
          module.set_step(-1);
          return 0;
        });
        expect("got -1", [&] {
          module.set_counter("unit.0.a", -1);
          return 0;
        });
        constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
        expect("to 2^62", [&] {
          module.set_step(most);
          return 0;
        });
        expect("to 2^62", [&] {
          module.set_counter("unit.0.a", most);
          return 0;
        });
        {
          auto step = module.begin_step();
          expect("before any forward", [&] { return step.backward(0); });
          expect("before any forward", [&] { return step.backward(3); });
        }
        {
          auto step = module.begin_step({.micro_steps = 2});
          expect("within a step", [&] { return module.begin_step(); });
          expect("within a step", [&] { return module.evaluate(); });
          expect("within a step", [&] {
            module.read_weights("unit.0.a", five);
            return 0;
          });
          expect("within a step", [&] {
            module.write_weights("unit.0.a", five);
            return 0;
          });
          expect("within a step", [&] {
            module.set_step(3);
            return 0;
          });
          expect("within a step", [&] {
            module.initialize([](const auto&, std::size_t) { return 0.0F; });
            return 0;
          });
          auto unit = step.forward(1);
          expect("'unit.1'", [&] { return unit.template gradients<Parts>(); });
          expect("'unit.1'", [&] { return unit.template weights<Bare>(); });
          expect("'unit.1' is in use", [&] { return step.forward(2); });
          step.abandon();
          expect("abandoned", [&] { return unit.template weights<Parts>(); });
          expect("is over", [&] { return step.finish(); });
          expect("is over", [&] { return step.forward(0); });
        }
        {
          auto step = module.begin_step();
          auto unit = step.forward(0);
          expect("'unit.0' is in use", [&] { return step.finish(); });
          expect("abandoned", [&] { return unit.template weights<Parts>(); });
        }
        {
          auto step = module.begin_step();
          expect("no unit ran forward", [&] { return step.finish(); });
        }
        {
          auto step = module.begin_step({.micro_steps = 2});
          for (auto unit : step.forward()) (void)unit;
          for (auto unit : step.backward()) (void)unit;
          expect("only 1 ran", [&] { return step.finish(); });
        }
        {
          auto step = module.begin_step();
          for (auto unit : step.forward()) (void)unit;
          for (auto unit : step.backward()) {
            if (unit.index() == 1) break;
          }
          expect("'unit.0' ran forward but not backward", [&] { return step.finish(); });
        }
        {
          auto step = module.begin_step();
          for (auto unit : step.forward()) {
            if (unit.index() == 2) unit.skip();
          }
          for (auto unit : step.backward()) (void)unit;
          expect("'unit.2' ran backward but not forward", [&] { return step.finish(); });
        }
        {  // an old step cannot act on a newer one
          auto old = module.begin_step();
          old.abandon();
          auto step = module.begin_step();
          old.abandon();
          expect("is over", [&] { return old.finish(); });
          expect("is over", [&] { return old.forward(0); });
          for (auto unit : step.forward()) (void)unit;
          for (auto unit : step.backward()) (void)unit;
          said.emplace_back("", step.finish().applied ? "" : "not applied");
          expect("is over", [&] { return step.finish(); });
        }
        const Outcome after = train(module, mode.user_code, {});
        said.emplace_back("", all_are(after.weights, -1) ? "" : "wrong weights");
        return said;
      });
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        for (const auto& rank : ranks) {
          for (const auto& [part, text] : rank) {
            if (part.empty()) {
              BOOST_TEST(text == "");
            } else {
              BOOST_TEST(says(text, {"ContractError: zero", part.c_str()}),
                         text << " lacks " << part);
            }
          }
        }
      }
    }
  };
  check(named<zero::Zero1>("stage 1"));
  check(named<zero::Hybrid>("hybrid", 2));
}

BOOST_AUTO_TEST_SUITE_END()
