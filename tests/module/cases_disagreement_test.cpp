// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Ranks that differ in model, stage, steps or calls: an error on all ranks, never a hang.
#include <boost/test/unit_test.hpp>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_disagreement_test)

using namespace harness;

const zero::Sgd sgd{.learning_rate = 1};
const Model& four_units() {
  static const Model model = model_of({"unit", 4, sizes({5, 2})});
  return model;
}

/// Runs f(comm, mesh options) on rank threads and returns each rank's error. No rank is waited for
/// longer than `limit` by the others.
template <class F>
std::vector<std::string> errors_on_ranks(std::size_t ranks, std::chrono::milliseconds limit, F f) {
  std::vector<std::string> errors(ranks);
  on_threads(ranks, limit, [&](zero::ThreadCommunicator& comm) {
    errors[comm.rank()] = error_of([&] { f(comm); });
  });
  return errors;
}

// B101
BOOST_AUTO_TEST_CASE(ranks_that_evaluate_a_different_number_of_batches_get_an_error) {
  for (const Mode& mode : {modes()[0], modes()[1], modes()[2]}) {
    for (const bool trains : {false, true}) {
      BOOST_TEST_CONTEXT(mode.name << (trains ? ", then train" : ", then end")) {
        const Setup setup = Setup{}.in(mode);
        const auto errors = errors_on_ranks(2, std::chrono::seconds(10), [&](auto& comm) {
          auto module = zero::shard<zero::Zero3>(four_units(), comm, sgd, setup.options);
          for (std::size_t batch = 0; batch < 3 - comm.rank(); ++batch) {
            (void)evaluate(module, mode.user_code);
          }
          if (trains) (void)train(module, mode.user_code, {}, false);
        });
        const std::initializer_list<const char*> parts{
            "CommunicatorError: ", "unit.", "\nLast operations", "\n  rank 0: gather of ",
            "\n  rank 1: gather of "};
        BOOST_TEST(says(errors[0], parts), errors[0]);
        if (trains) BOOST_TEST(says(errors[1], parts), errors[1]);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(ranks_that_begin_steps_of_different_length_get_an_error) {
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
        for (const std::string& text :
             errors_on_ranks(2, std::chrono::seconds(10), [&](auto& comm) {
               auto module =
                   shard(stage, four_units(), zero::mesh(comm, stage.replicas), sgd, setup.options);
               (void)train(module, mode.user_code, {.micro_steps = comm.rank() + 1});
             })) {
          BOOST_TEST(says(text, {"CommunicatorError: ", "unit"}), text);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(ranks_with_different_models_learn_so_at_construction) {
  const Config seven = sizes({7, 3});
  const Model here = model_of({"unit", 2, seven});
  const Model others[] = {model_of({"unit", 3, seven}),
                          model_of({"unit", 2, sizes({7, 4})}),
                          model_of({"unit", 2, sizes({3, 7})}),
                          model_of({"other", 2, seven}),
                          model_of({"unit", 2, seven.frozen({0})}),
                          model_of({"unit", 2, seven.no_decay({1})}),
                          model_of({"unit", 2, shapes({{7, 1}, {3}})})};
  for_each_stage(2, [&](const NamedStage& stage) {
    BOOST_TEST_CONTEXT(stage) {
      for (const Model& other : others) {
        for (const std::string& text :
             errors_on_ranks(2, std::chrono::seconds(10), [&](auto& comm) {
               auto module = shard(stage, comm.rank() == 0 ? here : other,
                                   zero::mesh(comm, stage.replicas), sgd);
             })) {
          BOOST_TEST(says(text, {"ContractError: ", "rank 1", "model"}), text);
        }
      }
    }
  });
  zero::ModuleOptions longer;
  longer.max_micro_steps = 17;
  for (const std::string& text : errors_on_ranks(2, std::chrono::seconds(10), [&](auto& comm) {
         if (comm.rank() == 0) {
           auto module = zero::shard<zero::Zero1>(here, comm, sgd);
         } else {
           auto module = zero::shard<zero::Zero2>(here, comm, sgd);
         }
       })) {
    BOOST_TEST(says(text, {"ContractError: ", "stage"}), text);
  }
  for (const std::string& text : errors_on_ranks(2, std::chrono::seconds(10), [&](auto& comm) {
         auto module = zero::shard<zero::Zero1>(here, comm, sgd,
                                                comm.rank() == 0 ? zero::ModuleOptions{} : longer);
       })) {
    BOOST_TEST(says(text, {"ContractError: "}), text);
  }
}

BOOST_AUTO_TEST_CASE(ranks_that_finish_a_step_in_different_ways_get_an_error_and_go_on) {
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const int kind : {0, 1, 2}) {
      const char* const names[] = {"divisor", "max_norm", "position"};
      BOOST_TEST_CONTEXT(stage << ", " << names[kind]) {
        for (const auto& [text, after] :
             on_ranks(stage, Setup{}.on(2, stage.replicas), four_units(), sgd, [&](auto& module) {
               const std::size_t rank = module.mesh().world.rank();
               const double mine = 1 + static_cast<double>(rank);
               Plan plan;
               if (kind == 0) plan.finish.divisor = mine;
               if (kind == 1) plan.finish.max_norm = mine;
               if (kind == 2) module.set_step(static_cast<std::int64_t>(rank));
               const std::string said =
                   error_of([&] { (void)train(module, zero::UserCode::on_caller, plan); });
               module.set_step(0);
               return std::pair(said, train(module, zero::UserCode::on_caller, {}, false));
             })) {
          BOOST_TEST(says(text, {"ContractError: ", "FinishOptions", "set_step"}), text);
          BOOST_TEST(all_are(after.weights, -1));
        }
      }
    }
  });
}

// One rank makes another call than the others: an error, never a match with another collective.
BOOST_AUTO_TEST_CASE(ranks_that_make_different_calls_get_an_error) {
  for (const Mode& mode : {modes()[0], modes()[1], modes()[2]}) {
    for (int kind = 0; kind < 3; ++kind) {
      BOOST_TEST_CONTEXT(mode.name << ", kind " << kind) {
        const Setup setup = Setup{}.in(mode);
        for (const std::string& text :
             errors_on_ranks(2, std::chrono::seconds(10), [&](auto& comm) {
               auto module = zero::shard<zero::Zero3>(four_units(), comm, sgd, setup.options);
               std::vector<float> five(5), two(2);
               if (comm.rank() == 0) {
                 (void)train(module, mode.user_code, {});
               } else if (kind == 0) {
                 module.read_weights("unit.0.a", five);
               } else if (kind == 1) {
                 for (int i = 0; i < 2; ++i) (void)evaluate(module, mode.user_code);
               } else {
                 auto step = module.begin_step();
                 (void)step.forward(0);
                 (void)step.forward(1);
                 step.abandon();
                 (void)train(module, mode.user_code, {}, false);
               }
             })) {
          BOOST_TEST(says(text, {"CommunicatorError: ", "unit"}), text);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
