// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Tensors that are frozen and thawed between steps.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <memory>
#include <type_traits>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(frozen_test)

using namespace harness;

/// Momentum 0.9 and decay 0.1, so that a moment or a decay of what is frozen would show.
const zero::Sgd momentum{.learning_rate = 0.5F, .momentum = 0.9F, .weight_decay = 0.1F};

float inexact(const Place& p) {
  return std::sin(static_cast<float>(p.rank * 7 + p.element * 3 + 2 * p.unit + p.tensor)) +
         static_cast<float>(p.step);
}
Model three_units() { return model_of({"unit", 3, sizes({5, 2})}); }
std::vector<float> part(const std::vector<float>& all, std::size_t begin, std::size_t count) {
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}
template <class Module>
std::vector<float> state_of_tensor(Module& module, const char* name) {
  std::vector<float> whole(module.parameters().find(name).shape.elements());
  module.read_state(name, 0, whole);
  return whole;
}
/// `steps` more steps, counted from `first` for the gradient's sake.
template <class Module>
Outcome go_on(Module& module, zero::UserCode where, std::size_t first, std::size_t steps) {
  Plan plan{.steps = steps};
  plan.gradient = [first](Place p) {
    p.step += first;
    return inexact(p);
  };
  plan.finish.max_norm = 3;
  return train(module, where, plan, false);
}

// B53: unit 1 is frozen for 3 steps and then thawed; unit 0 below it trains all the time. Another
// run thaws it at the start of its step 4 with all other state the same: it is a fresh tensor.
BOOST_AUTO_TEST_CASE(a_unit_that_is_frozen_for_three_steps_and_thawed_begins_anew) {
  std::vector<std::vector<float>> ends;
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      Setup setup = Setup{}.in(mode).on(2, stage.replicas);
      for (const auto& [wrong, weights, moments] :
           on_ranks(stage, setup, three_units(), momentum, [&](auto& module) {
             std::vector<std::string> wrong;
             const auto expect = [&](bool ok, const char* what) {
               if (!ok) wrong.emplace_back(what);
             };
             module.initialize([](const zero::TensorInfo& t, std::size_t i) {
               return static_cast<float>(t.unit + 1) + static_cast<float>(i) / 3;
             });
             const auto initial = weights_of(module);
             const zero::BytesHeld held = module.bytes_held();
             const std::size_t full = held.total();
             expect(module.bytes_if_frozen("unit.1.*", false) == full, "bytes as they are");
             const std::size_t fewer = module.bytes_if_frozen("unit.1.*", true);
             module.set_frozen("unit.1.*", true);
             expect(same_bits(weights_of(module), initial), "weights after freezing");
             expect(module.step() == 0, "no step is counted");
             expect(module.bytes_held().total() == fewer, "bytes");
             expect(3 * module.bytes_held().optimizer == 2 * held.optimizer, "optimizer's bytes");
             expect(module.bytes_held() == module.predicted_bytes_held(), "predicted bytes");
             const auto three = go_on(module, mode.user_code, 0, 3).weights;
             expect(same_bits(part(three, 7, 7), part(initial, 7, 7)), "unit 1 while frozen");
             for (const std::size_t u : {0U, 2U}) {
               expect(!same_bits(part(three, 7 * u, 7), part(initial, 7 * u, 7)), "others train");
             }
             const auto moment = state_of_tensor(module, "unit.0.a");
             module.set_frozen("unit.1.*", false);
             expect(same_bits(weights_of(module), three), "weights after thawing");
             expect(same_bits(state_of_tensor(module, "unit.0.a"), moment), "moment of unit 0");
             expect(all_are(state_of_tensor(module, "unit.1.a"), 0), "moment of unit 1");
             expect(module.step() == 3, "step");
             expect(module.counter("unit.0.a") == 3, "counter of unit 0");
             expect(module.counter("unit.1.a") == 0, "counter of unit 1");
             expect(module.bytes_held().total() == full, "bytes after thawing");
             const Outcome end = go_on(module, mode.user_code, 3, 2);
             expect(module.counter("unit.1.a") == 2, "counter of unit 1 at the end");
             expect(end.steps.back().step == 5 && end.gathered_bytes == 0, "end");
             return std::tuple(wrong, end.weights, state_of(module, 0));
           })) {
        for (const std::string& what : wrong) {
          BOOST_TEST(false, stage << ", " << mode.name << ": " << what);
        }
        ends.push_back(weights);
        ends.back().insert(ends.back().end(), moments.begin(), moments.end());
        BOOST_TEST(same_bits(ends.back(), ends.front()), stage << ", " << mode.name);
      }
    }
  });
}

// B53, B56: everything but the head; then everything.
BOOST_AUTO_TEST_CASE(a_trunk_may_be_frozen_and_thawed_at_any_time) {
  std::vector<std::vector<float>> ends;
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const auto& [weights, untouched] :
         on_ranks(stage, Setup{}.on(2, stage.replicas), three_units(), momentum, [&](auto& module) {
           const auto where = zero::UserCode::on_caller;
           (void)go_on(module, where, 0, 2);
           module.set_frozen("unit.0.*", true);
           module.set_frozen("*.1.*", true);
           const auto before = weights_of(module);
           const auto trunk = go_on(module, where, 2, 2);
           module.set_frozen("*", true);
           const auto all = go_on(module, where, 4, 1);
           module.set_frozen("*.b", false);  // half of each unit
           const auto half = go_on(module, where, 5, 2);
           const bool untouched = same_bits(part(trunk.weights, 0, 14), part(before, 0, 14)) &&
                                  same_bits(all.weights, trunk.weights) &&
                                  same_bits(part(half.weights, 0, 5), part(before, 0, 5)) &&
                                  all.steps[0].norm == 0.0 && half.gathered_bytes == 0;
           return std::pair(half.weights, untouched);
         })) {
      BOOST_TEST(untouched, stage);
      ends.push_back(weights);
      BOOST_TEST(same_bits(ends.back(), ends.front()), stage);
    }
  });
}

// B55: a frozen tensor costs neither gradient nor state.
BOOST_AUTO_TEST_CASE(a_few_trained_elements_beside_many_frozen_ones_cost_little) {
  const Model model = model_of({"unit", 1, sizes({100'000, 10}).frozen({0})});
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const auto& held : on_ranks(stage, Setup{}.on(2, stage.replicas), model, zero::AdamW{},
                                     [](auto& module) { return module.bytes_held(); })) {
      BOOST_TEST(held.gradients + held.optimizer <= 1024U, stage);
    }
  });
}

BOOST_AUTO_TEST_CASE(masters_of_narrow_weights_begin_at_the_weights_that_computed) {
  for (const auto& [frozen, thawed, master] :
       on_ranks<zero::Zero3, zero::bf16>(Setup{}.on(2), three_units(), momentum, [](auto& module) {
         const auto where = zero::UserCode::on_caller;
         module.initialize([](const auto&, std::size_t) { return 1.0F; });
         (void)go_on(module, where, 0, 2);
         const auto saw = evaluate(module, where);
         module.set_frozen("*", true);
         const auto frozen = same_bits(evaluate(module, where), saw);
         module.set_frozen("*", false);
         const auto thawed = same_bits(evaluate(module, where), saw);
         return std::tuple(frozen, thawed, same_bits(weights_of(module), saw));
       })) {
    BOOST_TEST(frozen);
    BOOST_TEST(thawed);
    BOOST_TEST(master);
  }
}

BOOST_AUTO_TEST_CASE(memory_of_the_caller_is_replaced_by_another_block) {
  struct alignas(zero::memory_alignment) Line {
    std::byte bytes[zero::memory_alignment];
  };
  std::vector<std::string> wrong(2);
  on_threads(2, std::chrono::seconds(10), [&](zero::ThreadCommunicator& comm) {
    const auto block = [](std::size_t bytes) { return std::vector<Line>(bytes / 64 + 1); };
    const auto span = [](std::vector<Line>& lines) {
      return std::as_writable_bytes(std::span(lines));
    };
    zero::ModuleOptions options{.poison = true};
    const auto first_bytes = zero::bytes_needed<zero::Zero3>(three_units(), 2, momentum, options);
    auto first = block(first_bytes);
    options.memory = span(first);
    auto sharded = zero::shard<zero::Zero3>(three_units(), comm, momentum, options);
    zero::Module<Model, zero::Sgd, zero::ThreadCommunicator, float>& module = sharded;
    std::string& text = wrong[comm.rank()];
    const auto expect = [&](bool ok, const std::string& what) {
      if (!ok) text += what + "; ";
    };
    (void)go_on(module, zero::UserCode::on_caller, 0, 1);
    const auto before = weights_of(module);
    auto second = block(module.bytes_if_frozen("unit.0.*", true));
    const auto none = error_of([&] { module.set_frozen("unit.0.*", true); });
    expect(says(none, {"the caller's; pass another block"}), none);
    const auto same = error_of([&] { module.set_frozen("unit.0.*", true, span(first)); });
    expect(says(same, {"overlaps"}), same);
    const auto small =
        error_of([&] { module.set_frozen("unit.0.*", true, span(second).first(64)); });
    expect(says(small, {"memory must hold"}), small);
    module.set_frozen("unit.0.*", true, span(second));
    std::fill(first.begin(), first.end(), Line{});  // it is the caller's again
    expect(same_bits(weights_of(module), before), "weights");
    expect(go_on(module, zero::UserCode::on_caller, 1, 1).applied(), "goes on");
  });
  for (const std::string& text : wrong) BOOST_TEST(text == "");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_frozen_is_refused_on_every_rank_and_the_module_goes_on) {
  for (const auto& [none, differ, inside, weights] : on_ranks<zero::Zero2>(
           Setup{}.on(2), three_units(), zero::Sgd{.learning_rate = 1}, [](auto& module) {
             const auto none = error_of([&] { module.set_frozen("nothing.*", true); });
             const bool first = module.mesh().world.rank() == 0;
             const auto differ =
                 error_of([&] { module.set_frozen(first ? "unit.0.*" : "unit.1.*", true); });
             const auto inside = error_of([&] {
               auto step = module.begin_step();
               module.set_frozen("*", true);
             });
             return std::tuple(none, differ, inside,
                               train(module, zero::UserCode::on_caller, {}).weights);
           })) {
    BOOST_TEST(says(none, {"ContractError: zero: set_frozen: no tensor's name matches"}), none);
    BOOST_TEST(says(differ, {"ContractError: ", "rank 1 has another model"}), differ);
    BOOST_TEST(says(inside, {"ContractError: zero: set_frozen was called within a step"}), inside);
    BOOST_TEST(all_are(weights, -1));
  }
}

BOOST_AUTO_TEST_CASE(patterns_match_any_text_at_their_stars) {
  using zero::matches;
  static_assert(matches("*", "") && matches("*", "a.b") && matches("a.b", "a.b"));
  static_assert(matches("a*c*", "abcbc") && matches("*b", "ab.b"));
  static_assert(!matches("a", "ab") && !matches("ab", "a") && !matches("*a*b", "ba"));
  static_assert(!matches("", "a") && matches("", ""));
  BOOST_TEST(true);
}

BOOST_AUTO_TEST_CASE(a_step_that_is_over_stays_so_after_a_tensor_is_frozen) {
  for (const bool right : on_ranks(
           named<zero::Zero3>("stage 3"), Setup{}.on(2), three_units(), momentum, [](auto& module) {
             using Module = std::remove_reference_t<decltype(module)>;
             auto old = std::make_unique<zero::TrainingStep<Module>>(module, zero::StepOptions{});
             Outcome outcome;
             const auto finish = [&](auto& step) {
               run_passes(module, step, zero::UserCode::on_caller, Plan{}, 0, outcome);
               return step.finish().applied;
             };
             const bool first = finish(*old);
             module.set_frozen("unit.1.*", true);
             auto step = module.begin_step();  // of the same number
             old.reset();
             return first && finish(step);
           })) {
    BOOST_TEST(right);
  }
}

BOOST_AUTO_TEST_SUITE_END()
