// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Whatever fails, and wherever: no hang, no crash, one clear error, and a retry that equals a fresh
// start.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <type_traits>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(cases_failure_test)

using namespace harness;

const zero::Sgd sgd{.learning_rate = 1};
const Model& four_units() {
  static const Model model = model_of({"unit", 4, sizes({5, 2})});
  return model;
}
float some(const Place& p) { return static_cast<float>(p.rank + p.element + 3 * p.unit + 1); }

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

// B94
BOOST_AUTO_TEST_CASE(a_step_that_an_exception_left_is_as_if_it_had_never_begun) {
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      for (const bool in_backward : {false, true}) {
        for (std::size_t micro_step = 0; micro_step < 2; ++micro_step) {
          BOOST_TEST_CONTEXT(stage << ", " << mode.name
                                   << (in_backward ? ", backward " : ", forward ") << micro_step) {
            const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
            const Plan whole{.micro_steps = 2, .gradient = some}, half{.gradient = some};
            const auto retried = on_ranks(stage, setup, four_units(), sgd, [&](auto& module) {
              module.initialize(whole.initial);
              const std::string text = error_of([&] {
                Outcome unused;
                auto step = module.begin_step({.micro_steps = 2});
                for (std::size_t m = 0; m <= micro_step; ++m) {
                  for (auto unit : step.forward()) {
                    if (!in_backward && m == micro_step && unit.index() == 2)
                      throw std::bad_alloc();
                  }
                  for (auto unit : step.backward()) {
                    add_gradient(module, mode.user_code, unit, whole, {});
                    if (in_backward && m == micro_step && unit.index() == 2) throw std::bad_alloc();
                  }
                }
              });
              const std::size_t gathered = module.gathered_bytes();
              Outcome outcome = train(module, mode.user_code, half, false);
              if (!says(text, {"std: "}) || gathered != 0) outcome.steps.clear();
              return outcome;
            });
            const auto fresh = train(stage, setup, four_units(), sgd, half);
            for (std::size_t r = 0; r < 2; ++r) BOOST_TEST(same_bits(retried[r], fresh[r]));
          }
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(an_exception_anywhere_leaves_a_module_that_trains) {
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
        const Plan plan{.steps = 2, .micro_steps = 2, .gradient = some};
        const auto fresh = train(stage, setup, four_units(), sgd, plan);
        const auto after = on_ranks(stage, setup, four_units(), sgd, [&](auto& module) {
          const auto fails = [&](auto f) {
            if (!says(error_of(f), {"on purpose"}))
              throw zero::Error("another error: " + error_of(f));
          };
          const auto fail = [] { throw std::runtime_error("on purpose"); };
          fails([&] { module.initialize([&](const auto&, std::size_t) { return fail(), 0.0F; }); });
          fails([&] {
            auto step = module.begin_step();
            fail();
          });
          fails([&] {
            auto step = module.begin_step({.micro_steps = 2});
            for (auto unit : step.forward()) (void)unit;
            fail();
          });
          fails([&] {
            auto step = module.begin_step();
            for (auto unit : step.forward()) (void)unit;
            for (auto unit : step.backward()) add_gradient(module, mode.user_code, unit, plan, {});
            fail();
          });
          fails([&] {
            auto pass = module.evaluate();
            for (auto unit : pass.forward()) {
              if (unit.index() == 1) fail();
            }
          });
          fails([&] {
            auto pass = module.evaluate();
            for (auto unit : pass.forward()) (void)unit;
            fail();
          });
          return train(module, mode.user_code, plan);
        });
        for (std::size_t r = 0; r < 2; ++r) BOOST_TEST(same_bits(after[r], fresh[r]));
      }
    }
  });
}

// What the user enqueues on a unit's stream may throw: the rank that failed hears of it, no rank
// updates.
BOOST_AUTO_TEST_CASE(an_exception_on_a_stream_of_one_rank_updates_nothing_anywhere) {
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : {modes()[4], modes()[5]}) {
      for (const bool in_backward : {false, true}) {
        BOOST_TEST_CONTEXT(stage << ", " << mode.name
                                 << (in_backward ? ", backward" : ", forward")) {
          const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
          const Plan plan{.gradient = some};
          const auto fresh = train(stage, setup, four_units(), sgd, plan);
          const auto ranks = on_ranks(stage, setup, four_units(), sgd, [&](auto& module) {
            bool applied = false;
            const std::string text = error_of([&] {
              auto step = module.begin_step();
              // The last compute, so that every rank comes to the end of the step.
              const auto fail = [&](const auto& unit, bool here) {
                if (!here || module.mesh().world.rank() != 1) return;
                unit.stream().enqueue("fails", [] { throw std::runtime_error("on purpose"); });
              };
              for (auto unit : step.forward()) fail(unit, !in_backward && unit.index() == 3);
              for (std::size_t u = 4; u-- > 0;) {
                auto unit = step.backward(u);
                add_gradient(module, mode.user_code, unit, plan, {});
                fail(unit, in_backward && u == 0);
              }
              applied = step.finish().applied;
            });
            return std::tuple(text, applied);
          });
          BOOST_TEST(!std::get<1>(ranks[0]));
          BOOST_TEST(!std::get<1>(ranks[1]));
          BOOST_TEST(says(std::get<0>(ranks[1]), {"on purpose"}), std::get<0>(ranks[1]));
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(after_a_failure_on_a_stream_in_the_last_backward_all_ranks_go_on) {
  const Setup setup = Setup{}.in(modes()[4]).on(2);
  const Plan plan{.gradient = some};
  const auto fresh = train<zero::Zero3>(setup, four_units(), sgd, plan);
  const auto after = on_ranks<zero::Zero3>(setup, four_units(), sgd, [&](auto& module) {
    module.initialize(plan.initial);
    (void)error_of([&] {
      auto step = module.begin_step();
      for (auto unit : step.forward()) (void)unit;
      for (auto unit : step.backward()) {
        add_gradient(module, zero::UserCode::on_stream, unit, plan, {});
        if (unit.index() != 0 || module.mesh().world.rank() != 1) continue;
        unit.stream().enqueue("fails", [] { throw std::runtime_error("on purpose"); });
      }
      (void)step.finish();
    });
    return train(module, zero::UserCode::on_stream, plan, false);
  });
  for (std::size_t r = 0; r < 2; ++r) BOOST_TEST(same_bits(after[r], fresh[r]));
}

// The function fails at the end of a step, before anything was updated: on all ranks, or on one.
BOOST_AUTO_TEST_CASE(a_learning_rate_that_throws_is_reported_and_nothing_changes) {
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      for (const bool on_all : {false, true}) {
        BOOST_TEST_CONTEXT(stage << ", " << mode.name << (on_all ? ", all" : ", one")) {
          const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
          std::vector<std::string> texts(2);
          std::vector<Outcome> after(2);
          on_threads(2, setup.options.time_limit, [&](zero::ThreadCommunicator& comm) {
            bool fails = true;
            const zero::Sgd failing{.learning_rate = [&](std::int64_t step) -> float {
              if (step == 1 && fails) throw std::runtime_error("no rate");
              return 1;
            }};
            fails = on_all || comm.rank() == 1;
            auto module = shard(stage, four_units(), zero::mesh(comm, stage.replicas), failing,
                                setup.options);
            const Plan plan{.steps = 2};
            Outcome outcome;
            texts[comm.rank()] = error_of([&] {
              for (std::size_t k = 0; k < 2; ++k) {
                auto step = module.begin_step();
                run_passes(module, step, mode.user_code, plan, k, outcome);
                if (step.finish().skipped()) throw std::runtime_error("skipped");
              }
            });
            module.synchronize();
            fails = false;
            after[comm.rank()] = train(module, mode.user_code, {}, false);
          });
          BOOST_TEST(says(texts[1], {"no rate"}), texts[1]);
          BOOST_TEST(says(texts[0], {on_all ? "no rate" : "skipped"}), texts[0]);
          for (const Outcome& rank : after) {
            BOOST_TEST(rank.steps[0].step == 2);
            BOOST_TEST(all_are(rank.weights, -2));
          }
        }
      }
    }
  });
}

// All that functions say is asked for before anything is updated.
BOOST_AUTO_TEST_CASE(a_learning_rate_that_throws_for_a_later_tensor_changes_nothing_on_any_rank) {
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        std::atomic<int> calls{0};
        const zero::Sgd failing{.learning_rate = [&](std::int64_t step) -> float {
          if (step == 1 && ++calls > 4) throw std::runtime_error("no rate");
          return 1;
        }};
        for (const auto& [text, steps, weights] :
             on_ranks(stage, Setup{}.in(mode).on(2, stage.replicas), four_units(), failing,
                      [&](auto& module) {
                        std::string error = error_of([&] {
                          (void)train(module, mode.user_code, {.steps = 2});
                          module.synchronize();
                        });
                        return std::tuple(std::move(error), module.step(), weights_of(module));
                      })) {
          BOOST_TEST((text.empty() || says(text, {"no rate"})), text);
          BOOST_TEST(steps == 1);
          BOOST_TEST(all_are(weights, -1));
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(an_exception_on_one_rank_ends_all_ranks_with_that_error) {
  for_each_stage(4, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        const Setup setup = Setup{}.in(mode).on(4, stage.replicas);
        for (const bool in_backward : {false, true}) {
          const std::string text = error_of([&] {
            on_ranks(stage, setup, four_units(), sgd, [&](auto& module) {
              for (int k = 0; k < 3; ++k) {
                auto step = module.begin_step();
                const auto fail = [&](const auto& unit) {
                  if (k == 1 && unit.index() == 2 && module.mesh().world.rank() == 2) {
                    throw std::runtime_error("on purpose");
                  }
                };
                for (auto unit : step.forward()) {
                  if (!in_backward) fail(unit);
                }
                for (auto unit : step.backward()) fail(unit);
                (void)step.finish();
              }
              return 0;
            });
          });
          BOOST_TEST(text == "std: on purpose");
        }
      }
    }
  });
}

// B98
BOOST_AUTO_TEST_CASE(a_rank_that_leaves_without_a_word_is_named_with_the_collective_and_the_unit) {
  for_each_stage(4, [&](const NamedStage& stage) {
    for (const Mode& mode : {modes()[0], modes()[1], modes()[2], modes()[4]}) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        const Setup setup = Setup{}.in(mode).on(4, stage.replicas);
        const auto errors = errors_on_ranks(4, std::chrono::seconds(10), [&](auto& comm) {
          auto module =
              shard(stage, four_units(), zero::mesh(comm, stage.replicas), sgd, setup.options);
          (void)train(module, mode.user_code, {});
          if (comm.rank() != 2) (void)train(module, mode.user_code, {}, false);
        });
        for (std::size_t r = 0; r < 4; ++r) {
          if (r == 2) {
            BOOST_TEST(errors[r] == "");
          } else {
            BOOST_TEST(says(errors[r], {"CommunicatorError: ", "unit", " left", "\nLast operations",
                                        "\n  rank 0: ", "(not done)", "\n  rank 2: "}),
                       errors[r]);
            if (stage.replicas == 1) BOOST_TEST(says(errors[r], {"rank 2 left"}), errors[r]);
          }
        }
      }
    }
  });
}

// B98
BOOST_AUTO_TEST_CASE(a_rank_that_hangs_is_named_within_the_time_limit) {
  const auto limit = std::chrono::milliseconds(200);
  for (const Mode& mode : {modes()[0], modes()[1], modes()[2], modes()[4]}) {
    BOOST_TEST_CONTEXT(mode.name) {
      Setup setup = Setup{}.in(mode).on(4);
      setup.options.time_limit = std::chrono::seconds(10);
      const auto begin = std::chrono::steady_clock::now();
      const auto errors = errors_on_ranks(4, limit, [&](auto& comm) {
        auto module = zero::shard<zero::Zero3>(four_units(), comm, sgd, setup.options);
        (void)train(module, mode.user_code, {});
        if (comm.rank() == 2) {
          std::this_thread::sleep_for(5 * limit);
        } else {
          (void)train(module, mode.user_code, {}, false);
        }
      });
      const auto seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      BOOST_TEST(seconds < 8);
      for (const std::size_t r : {0, 1, 3}) {
        BOOST_TEST(says(errors[r], {"TimeoutError: ", "unit.0", "rank 2", "200 ms", "(not done)"}),
                   errors[r]);
        // What the missing rank did last: the end of its only step.
        const std::string missing = errors[r].substr(errors[r].find("\n  rank 2: "));
        BOOST_TEST(missing.find("read of unit.3.") < missing.find("\n  rank 3: "), errors[r]);
      }
    }
  }
}

// B97
BOOST_AUTO_TEST_CASE(abort_and_destruction_in_any_order_end_quietly) {
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
        const auto errors = errors_on_ranks(2, std::chrono::seconds(10), [&](auto& comm) {
          auto made = [&] {
            return shard(stage, four_units(), zero::mesh(comm, stage.replicas), sgd, setup.options);
          };
          using Module = decltype(made());
          static_assert(!std::is_move_constructible_v<Module>);  // steps and scopes refer to it
          std::unique_ptr<Module> owned(new Module(made()));
          (void)train(*owned, mode.user_code, {});
          const auto moved = std::move(owned);
          owned.reset();  // the end of one that was moved from
          auto step = moved->begin_step();
          (void)step.forward(0);
          comm.abort("on purpose");
          comm.abort("again");
          for (auto unit : step.forward()) (void)unit;
          for (auto unit : step.backward()) (void)unit;
          (void)step.finish();
        });
        for (const std::string& text : errors) BOOST_TEST(says(text, {"Error: "}), text);
      }
    }
  });
}

// B97: while an exception is in flight, and within the scope of a unit.
BOOST_AUTO_TEST_CASE(a_module_may_be_destroyed_while_an_exception_is_in_flight) {
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
        const auto errors = errors_on_ranks(2, std::chrono::seconds(10), [&](auto& comm) {
          auto module =
              shard(stage, four_units(), zero::mesh(comm, stage.replicas), sgd, setup.options);
          auto step = module.begin_step();
          (void)step.forward(0);
          auto unit = step.forward(1);
          throw std::runtime_error("on purpose");
        });
        for (const std::string& text : errors) BOOST_TEST(text == "std: on purpose");
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_step_that_is_not_finished_leaves_no_trace) {
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
        const Plan plan{.micro_steps = 3, .gradient = some};
        const auto fresh = train(stage, setup, four_units(), sgd, plan);
        const auto after = on_ranks(stage, setup, four_units(), sgd, [&](auto& module) {
          module.initialize(plan.initial);
          for (int k = 0; k < 3; ++k) {
            Outcome unused;
            auto step = module.begin_step({.micro_steps = 3});
            run_passes(module, step, mode.user_code, plan, 0, unused);
            if (k == 1) step.abandon();
            if (k == 2) step.abandon(), step.abandon();
            module.synchronize();  // `unused` must outlive what was enqueued
          }
          return train(module, mode.user_code, plan, false);
        });
        for (std::size_t r = 0; r < 2; ++r) BOOST_TEST(same_bits(after[r], fresh[r]));
      }
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
