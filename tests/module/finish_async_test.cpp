// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Steps for whose decision the host does not wait: the same bits, and no error is lost.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <thread>

#include "../share.hpp"
#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(finish_async_test)

using namespace harness;
using zero::StreamMode;
using zero::UserCode;

const zero::Sgd sgd{.learning_rate = 1};

/// A loss scale that falls and grows, skipped steps, clipping, a rate that follows the steps that
/// were applied.
const Plan& eventful() {
  static const Plan plan{
      .steps = 7,
      .micro_steps = 2,
      .gradient =
          [](const Place& p) {
            if (p.step % 3 == 1 && p.rank == 1 && p.unit == 2 && p.element == 0) {
              return std::numeric_limits<float>::infinity();
            }
            return 64 *
                   std::sin(static_cast<float>(p.rank * 7 + p.element * 3 + p.unit + 5 * p.step));
          },
      .finish = {.max_norm = 0.5}};
  return plan;
}

BOOST_AUTO_TEST_CASE(steps_that_nobody_waits_for_train_the_same_bits) {
  const Model model = model_of({"unit", 4, sizes({5, 2})});
  const zero::AdamW adam{
      .learning_rate = [](std::int64_t step) { return 0.1F / static_cast<float>(step + 1); }};
  for (const NamedStage& stage : stages(4)) {
    if (share > 1 && stage.value.traits.shards_grads != stage.value.traits.shards_optimizer) {
      continue;
    }
    Setup setup = Setup{}.on(4, stage.replicas);
    setup.options.loss_scale = {.initial = 64, .growth_interval = 2};
    const Outcome waited = train(stage, setup, model, adam, eventful())[0];
    BOOST_TEST(!waited.applied());
    Plan plan = eventful();
    plan.waits = false;
    for (const Mode& mode : tried_modes()) {
      BOOST_TEST_CONTEXT(stage << ", " << mode.name) {
        for (const Outcome& rank : train(stage, setup.in(mode, 3), model, adam, plan)) {
          BOOST_TEST(same_bits(rank.weights, waited.weights));
          BOOST_TEST(rank.steps.back().step == waited.steps.back().step);
          BOOST_TEST(rank.steps.back().norm == waited.steps.back().norm);
          BOOST_TEST(rank.steps.back().loss_scale == waited.steps.back().loss_scale);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_host_enqueues_the_next_step_before_this_one_is_decided) {
  const Model model = model_of({"unit", 3, sizes({4})});
  const Setup setup = Setup{}.in(modes()[4]).on(2);
  const auto right = on_ranks<zero::Zero3>(setup, model, sgd, [](auto& module) {
    std::atomic<bool> open{false};
    const auto passes = [&](auto& step) {
      for (auto unit : step.forward()) (void)unit;
      for (auto unit : step.backward()) {
        compute(UserCode::on_stream, unit, [&open, g = unit.template gradients<Parts>().a] {
          while (!open) std::this_thread::yield();
          for (float& x : g) x += 1;
        });
      }
    };
    auto first = module.begin_step();
    passes(first);
    first.finish_async();
    auto second = module.begin_step();  // nothing of the first has run yet
    passes(second);
    open = true;
    return second.finish().step == 2 && all_are(weights_of(module), -2);
  });
  for (const bool rank : right) BOOST_TEST(rank);
}

BOOST_AUTO_TEST_CASE(what_needs_the_decision_waits_for_it) {
  const Model model = model_of({"unit", 3, sizes({4})});
  Setup setup = Setup{}.in(modes()[4]).on(2);
  setup.options.loss_scale = {.initial = 8, .growth_interval = 1};
  const auto right = on_ranks<zero::Zero3>(setup, model, sgd, [](auto& module) {
    const auto run = [&](auto& step) {
      const Plan plan;
      Outcome outcome;
      run_passes(module, step, UserCode::on_stream, plan, 0, outcome);
      step.finish_async();
      (void)module.last_result();  // streams refer to `plan` and `outcome`
    };
    bool ok = !module.last_result().applied && module.last_result().step == 0;
    for (int k = 1; k <= 4; ++k) {
      auto step = module.begin_step();
      ok = ok && step.loss_scale() == static_cast<float>(4 << k);
      run(step);
      if (k == 1) ok = ok && module.step() == 1;
      if (k == 2) ok = ok && module.counter("unit.0.a") == 2;
      if (k == 3) ok = ok && module.held_state().step == 3;
      if (k == 4) module.set_frozen("unit.1.*", true);
    }
    return ok && module.last_result().step == 4 && module.last_result().loss_scale == 64;
  });
  for (const bool rank : right) BOOST_TEST(rank);
}

// Errors.

/// Two steps of which the first goes wrong as `wrong` says; what the calls threw, one by one.
template <class Module, class Wrong>
std::vector<std::string> errors_of_two(Module& module, Wrong wrong, bool abandons = false) {
  std::vector<std::string> errors;
  const auto step = [&](bool first, bool over) {
    errors.push_back(error_of([&] {
      auto made = module.begin_step();
      for (auto unit : made.forward()) {
        if (first) wrong(unit);
      }
      for (auto unit : made.backward()) {
        if (first) wrong(unit);
        for (float& g : unit.template gradients<Parts>().a) g += 1;
      }
      if (over) return made.abandon();
      made.finish_async();
    }));
  };
  step(true, false);
  step(false, abandons);
  errors.push_back(error_of([&] { (void)module.last_result(); }));
  step(false, false);
  errors.push_back(error_of([&] { (void)module.last_result(); }));
  return errors;
}

BOOST_AUTO_TEST_CASE(a_disagreement_is_reported_on_every_rank_by_the_next_finish) {
  const Model model = model_of({"unit", 3, sizes({4})});
  for (const bool abandons : {false, true}) {
    const auto all = on_ranks<zero::Zero2>(Setup{}.on(3), model, sgd, [&](auto& module) {
      const bool skips = module.mesh().world.rank() == 1;
      auto errors = errors_of_two(
          module,
          [&](auto& unit) {
            if (skips && unit.index() == 1) unit.skip();
          },
          abandons);
      errors.push_back(all_are(weights_of(module), -1) ? "" : "other weights");
      return errors;
    });
    for (const std::vector<std::string>& errors : all) {
      BOOST_TEST_CONTEXT("abandons " << abandons) {
        BOOST_TEST(errors[0] == "");
        BOOST_TEST(
            says(errors[abandons ? 2 : 1], {"ContractError", "some ranks ran unit 'unit.1'"}));
        BOOST_TEST(errors[abandons ? 1 : 2] == "");
        for (std::size_t i = 3; i < errors.size(); ++i) BOOST_TEST(errors[i] == "");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_the_users_code_threw_on_a_stream_is_thrown_by_the_next_call_that_waits) {
  const Model model = model_of({"unit", 2, sizes({4})});
  for (const Mode& mode : {modes()[4], modes()[5]}) {
    const auto all = on_ranks<zero::Zero3>(Setup{}.in(mode).on(2), model, sgd, [&](auto& module) {
      std::vector<std::string> errors;
      const bool fails = module.mesh().world.rank() == 1;
      errors.push_back(error_of([&] {
        auto step = module.begin_step();
        for (auto unit : step.forward()) (void)unit;
        for (auto unit : step.backward()) {
          // In the last one: before it, the next unit would say so, and the others wait.
          compute(UserCode::on_stream, unit, [now = fails && unit.index() == 0] {
            if (now) throw std::runtime_error("mine");
          });
        }
        step.finish_async();
      }));
      errors.push_back(error_of([&] { (void)module.step(); }));
      errors.push_back(error_of([&] { (void)module.step(); }));
      errors.push_back(all_are(weights_of(module), 0) ? "" : "other weights");
      return errors;
    });
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      BOOST_TEST_CONTEXT(mode.name << ", rank " << rank) {
        BOOST_TEST((all[rank][0] + all[rank][1] == (rank == 1 ? "std: mine" : "")));
        BOOST_TEST(all[rank][2] == "");
        BOOST_TEST(all[rank][3] == "");
      }
    }
  }
}

/// A step without a decision that anybody waits for; the user's code fails in its last unit.
template <class Module>
std::string step_that(bool fails, Module& module) {
  return error_of([&] {
    auto step = module.begin_step();
    for (auto unit : step.forward()) (void)unit;
    for (auto unit : step.backward()) {
      compute(UserCode::on_stream, unit,
              [now = fails && unit.index() == 0, g = unit.template gradients<Parts>().a] {
                if (now) throw std::runtime_error("mine");
                for (float& x : g) x += 1;
              });
    }
    step.finish_async();
  });
}

BOOST_AUTO_TEST_CASE(
    what_the_next_steps_code_throws_tears_nothing_and_skips_that_step_on_all_ranks) {
  const Model model = model_of({"unit", 2, sizes({4})});
  for (const Mode& mode : {modes()[3], modes()[4], modes()[5]}) {
    const auto all = on_ranks<zero::Zero3>(Setup{}.in(mode).on(2), model, sgd, [](auto& module) {
      const bool fails = module.mesh().world.rank() == 1;
      std::vector<std::string> errors{step_that(false, module), step_that(fails, module)};
      errors.push_back(error_of([&] { (void)module.last_result(); }));
      errors.push_back(step_that(false, module));
      errors.push_back(module.last_result().step == 2 ? "" : "another number of steps");
      errors.push_back(all_are(weights_of(module), -2) ? "" : "other weights");
      return errors;
    });
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      for (std::size_t i = 0; i < all[rank].size(); ++i) {
        BOOST_TEST(all[rank][i] == (rank == 1 && i == 2 ? "std: mine" : ""),
                   mode.name << ", rank " << rank << ", call " << i << ": " << all[rank][i]);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_the_code_of_all_ranks_threw_is_thrown_once_and_the_step_can_be_retried) {
  const Model model = model_of({"unit", 2, sizes({4})});
  const auto all =
      on_ranks<zero::Zero3>(Setup{}.in(modes()[3]).on(2), model, sgd, [](auto& module) {
        std::vector<std::string> errors{step_that(true, module), step_that(false, module),
                                        step_that(false, module)};
        errors.push_back(error_of([&] { (void)module.last_result(); }));
        errors.push_back(all_are(weights_of(module), -1) ? "" : "other weights");
        return errors;
      });
  for (const std::vector<std::string>& errors : all) {
    BOOST_TEST((errors == std::vector<std::string>{"", "std: mine", "", "", ""}));
  }
}

BOOST_AUTO_TEST_CASE(what_code_throws_on_a_stream_of_the_users_own_skips_the_step_on_all_ranks) {
  const Model model = model_of({"unit", 2, sizes({4})});
  for (const Mode& mode : {modes()[1], modes()[4]}) {
    const auto all = on_ranks<zero::Zero3>(Setup{}.in(mode).on(2), model, sgd, [](auto& module) {
      zero::HostDevice device({.mode = StreamMode::asynchronous});
      zero::HostStream& own = device.make_stream("own");
      std::vector<std::string> errors;
      for (const bool first : {true, false}) {
        errors.push_back(error_of([&] {
          auto step = module.begin_step();
          for (auto unit : step.forward()) (void)unit;
          for (auto unit : step.backward()) {
            unit.also_on(&own);
            const bool fails = first && unit.index() == 0 && module.mesh().world.rank() == 1;
            own.enqueue([fails, g = unit.template gradients<Parts>().a] {
              if (fails) throw std::runtime_error("mine");
              for (float& x : g) x += 1;
            });
          }
          (void)step.finish();
        }));
        errors.push_back(error_of([&] { own.synchronize(); }));
      }
      errors.push_back(all_are(weights_of(module), -1) ? "" : "other weights");
      return errors;
    });
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      for (std::size_t i = 0; i < all[rank].size(); ++i) {
        BOOST_TEST(all[rank][i] == (rank == 1 && i < 2 ? "std: mine" : ""),
                   mode.name << ", rank " << rank << ", call " << i << ": " << all[rank][i]);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
