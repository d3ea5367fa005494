// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The scopes of steps and units: the order that they allow, and what they say of any other.
#include <boost/test/unit_test.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>
#include <zero/zero.hpp>

#include "../contract.hpp"

BOOST_AUTO_TEST_SUITE(step_scope_test)

template <class T>
struct Table {
  zero::Tensor<T> weight;
  static constexpr auto tensors(int n) {
    return zero::tensors(zero::tensor("weight", &Table::weight, {n}));
  }
};
template <class T>
struct Layer {
  zero::Tensor<T> weight, fixed;
  static constexpr auto tensors(int n) {
    return zero::tensors(zero::tensor("weight", &Layer::weight, {n}),
                         zero::tensor("fixed", &Layer::fixed, {n}, zero::frozen));
  }
};
auto make_model() {
  return zero::model(zero::unit<Table>("table", 3), zero::units<Layer>("layer", 2, 5),
                     zero::unit<Layer>("head", 4).reads("table"));
}
constexpr std::size_t units = 4;

/// One rank, whose weights are all 8 and whose step is weight - gradient.
struct OneRank {
  zero::SelfCommunicator comm;
  decltype(zero::shard<zero::Zero3>(make_model(), comm, zero::Sgd{})) module{
      make_model(),
      zero::mesh(comm),
      zero::Sgd{.learning_rate = 1.0F},
      {.max_micro_steps = 3, .poison = true}};
  OneRank() {
    module.initialize([](const zero::TensorInfo&, std::size_t) { return 8.0F; });
  }
  float weight(const char* name) {
    std::vector<float> whole(module.parameters().find(name).shape.elements());
    module.read_weights(name, whole);
    return whole.back();
  }
};

template <class Unit>
void add_one(Unit& unit) {
  if (unit.index() == 0) {
    for (float& g : unit.template gradients<Table>().weight) g += 1;
  } else {
    for (float& g : unit.template gradients<Layer>().weight) g += 1;
  }
}
template <class Step>
void micro_step(Step& step) {
  for (auto unit : step.forward()) (void)unit;
  for (auto unit : step.backward()) add_one(unit);
}
template <class Module>
zero::StepResult train(Module& module, std::size_t micro_steps = 1) {
  auto step = module.begin_step({.micro_steps = micro_steps});
  for (std::size_t m = 0; m < micro_steps; ++m) micro_step(step);
  return step.finish();
}

using contract::error_of;
void check_mentions(const std::string& text, const char* part) {
  BOOST_TEST(text.find(part) != std::string::npos, '"' << text << "\" does not mention: " << part);
}

BOOST_AUTO_TEST_CASE(scopes_can_neither_be_copied_nor_moved) {
  using Module = decltype(OneRank::module);
  static_assert(!std::is_move_constructible_v<zero::TrainingStep<Module>>);
  static_assert(!std::is_move_constructible_v<zero::Evaluation<Module>>);
  static_assert(!std::is_move_constructible_v<zero::UnitScope<Module>>);
  BOOST_TEST(true);
}

BOOST_AUTO_TEST_CASE(a_pass_visits_units_forward_in_order_and_backward_in_the_opposite_one) {
  OneRank rank;
  auto step = rank.module.begin_step({.micro_steps = 2});
  std::vector<std::string> seen;
  for (std::size_t m = 0; m < 2; ++m) {
    for (auto unit : step.forward()) {
      BOOST_TEST(unit.micro_step() == m);
      BOOST_TEST(unit.index() == seen.size() % (2 * units));
      seen.push_back(unit.name());
    }
    for (auto unit : step.backward()) {
      BOOST_TEST(unit.micro_step() == m);
      seen.push_back(unit.name());
    }
  }
  const std::vector<std::string> expected{
      "table", "layer.0", "layer.1", "head", "head", "layer.1", "layer.0", "table",
      "table", "layer.0", "layer.1", "head", "head", "layer.1", "layer.0", "table"};
  BOOST_TEST(seen == expected, boost::test_tools::per_element());
  BOOST_TEST(step.finish().applied);
}

BOOST_AUTO_TEST_CASE(units_entered_one_by_one_do_what_a_pass_does) {
  OneRank pass, single;
  (void)train(pass.module, 2);
  auto step = single.module.begin_step({.micro_steps = 2});
  for (std::size_t m = 0; m < 2; ++m) {
    for (std::size_t u = 0; u < units; ++u) auto unit = step.forward(u);
    for (std::size_t u = units; u-- > 0;) {
      auto unit = step.backward(u);
      add_one(unit);
    }
  }
  const zero::StepResult result = step.finish();
  BOOST_TEST(result.applied);
  BOOST_TEST(!result.skipped());
  BOOST_TEST(result.step == 1);
  for (const char* name : {"table.weight", "layer.0.weight", "layer.1.weight", "head.weight"}) {
    BOOST_TEST(single.weight(name) == 6.0F);
    BOOST_TEST(pass.weight(name) == 6.0F);
  }
  BOOST_TEST(single.weight("layer.1.fixed") == 8.0F);
}

BOOST_AUTO_TEST_CASE(a_tied_unit_sees_the_tensors_that_it_reads_and_adds_to_their_gradient) {
  OneRank rank;
  auto step = rank.module.begin_step();
  for (auto unit : step.forward()) {
    if (unit.index() == 3) BOOST_TEST(unit.weights<Table>().weight[2] == 8.0F);
  }
  for (auto unit : step.backward()) {
    add_one(unit);
    if (unit.index() == 3) unit.gradients<Table>().weight[2] += 2;
  }
  (void)step.finish();
  BOOST_TEST(rank.weight("table.weight") == 5.0F);
}

/// Two micro-steps that overwrite gradients where they may, and add one where not.
template <class Stage>
void check_overwriting(bool keeps_gradients) {
  zero::SelfCommunicator comm;
  auto module = zero::shard<Stage>(make_model(), comm, zero::Sgd{.learning_rate = 1.0F});
  module.initialize([](const zero::TensorInfo&, std::size_t) { return 8.0F; });
  auto step = module.begin_step({.micro_steps = 2});
  const auto put_one = [](bool may, zero::Tensor<float> to) {
    for (float& g : to) g = may ? 1 : g + 1;
  };
  for (std::size_t m = 0; m < 2; ++m) {
    for (auto unit : step.forward()) (void)unit;
    for (auto unit : step.backward()) {
      if (unit.index() == 0 || unit.index() == 3) {
        const bool may = unit.template may_overwrite<Table>();
        // The head reads the table too, and its backward comes first.
        BOOST_TEST(may == (unit.index() == 3 && (m == 0 || !keeps_gradients)));
        put_one(may, unit.template gradients<Table>().weight);
      }
      if (unit.index() == 0) continue;
      const bool may = unit.template may_overwrite<Layer>();
      BOOST_TEST(may == (m == 0 || !keeps_gradients), unit.name() << " in micro-step " << m);
      put_one(may, unit.template gradients<Layer>().weight);
    }
  }
  (void)step.finish();
  std::vector<float> layer(5), table(3);
  module.read_weights("layer.0.weight", layer);
  module.read_weights("table.weight", table);
  BOOST_TEST(layer == std::vector<float>(5, 6), boost::test_tools::per_element());
  BOOST_TEST(table == std::vector<float>(3, 4), boost::test_tools::per_element());
}
BOOST_AUTO_TEST_CASE(a_backward_may_overwrite_what_nothing_was_added_to) {
  check_overwriting<zero::Ddp>(true);
  check_overwriting<zero::Zero3>(false);
}

BOOST_AUTO_TEST_CASE(frozen_tensors_have_weights_but_no_gradient) {
  OneRank rank;
  auto step = rank.module.begin_step();
  for (auto unit : step.forward()) (void)unit;
  bool seen = false;
  for (auto unit : step.backward()) {
    if (unit.index() != 1) continue;
    seen = true;
    BOOST_TEST(unit.weights<Layer>().fixed[4] == 8.0F);
    BOOST_TEST(unit.gradients<Layer>().fixed.data() == nullptr);
  }
  BOOST_TEST(seen);
}

BOOST_AUTO_TEST_CASE(gradients_begin_at_zero_in_each_step_and_add_up_over_micro_steps) {
  OneRank rank;
  for (const std::size_t micro_steps : {1U, 3U, 1U}) {
    auto step = rank.module.begin_step({.micro_steps = micro_steps});
    for (std::size_t m = 0; m < micro_steps; ++m) micro_step(step);
    BOOST_TEST(step.finish().applied);
  }
  BOOST_TEST(rank.weight("layer.0.weight") == 3.0F);
}

BOOST_AUTO_TEST_CASE(what_is_asked_of_a_unit_that_it_has_not_is_refused) {
  OneRank rank;
  auto step = rank.module.begin_step();
  check_mentions(error_of([&] {
                   auto unit = step.forward(0);
                   (void)unit.gradients<Table>();
                 }),
                 "gradients");
  step.abandon();
  auto again = rank.module.begin_step();
  check_mentions(error_of([&] {
                   auto unit = again.forward(1);
                   (void)unit.weights<Table>();
                 }),
                 "unit 'layer.0' was asked for tensors of a kind that it neither is nor reads");
}

BOOST_AUTO_TEST_CASE(a_unit_that_is_not_there_or_not_next_is_refused_and_the_step_goes_on) {
  OneRank rank;
  auto step = rank.module.begin_step();
  check_mentions(error_of([&] { step.forward(7); }),
                 "unit 7 was entered, but the model has 4 units");
  { auto unit = step.forward(0); }
  { auto unit = step.forward(1); }
  check_mentions(error_of([&] { step.forward(0); }), "forward of unit 0");
  check_mentions(error_of([&] {
                   auto unit = step.forward(2);
                   auto inner = step.forward(3);
                 }),
                 "layer.1");
}

BOOST_AUTO_TEST_CASE(a_refused_unit_leaves_the_step_as_it_was) {
  OneRank rank;
  auto step = rank.module.begin_step();
  for (std::size_t u = 0; u < units; ++u) {
    auto unit = step.forward(u);
    BOOST_TEST(error_of([&] { auto inner = step.forward(u); }) != "no error");
  }
  BOOST_TEST(error_of([&] { step.forward(0); }) != "no error");  // it has had its turn
  for (auto unit : step.backward()) add_one(unit);
  BOOST_TEST(step.finish().applied);
  BOOST_TEST(rank.weight("head.weight") == 7.0F);
}

BOOST_AUTO_TEST_CASE(steps_and_evaluations_exclude_each_other) {
  OneRank rank;
  {
    auto step = rank.module.begin_step();
    check_mentions(error_of([&] { auto second = rank.module.begin_step(); }), "begin_step");
    check_mentions(error_of([&] { auto pass = rank.module.evaluate(); }), "evaluate");
    check_mentions(error_of([&] { rank.weight("table.weight"); }), "read_weights");
  }
  auto pass = rank.module.evaluate();
  check_mentions(error_of([&] { auto step = rank.module.begin_step(); }), "begin_step");
}

BOOST_AUTO_TEST_CASE(a_number_of_micro_steps_that_is_not_offered_is_refused) {
  OneRank rank;
  for (const std::size_t micro_steps : {std::size_t{0}, std::size_t{4}}) {
    check_mentions(
        error_of([&] { auto step = rank.module.begin_step({.micro_steps = micro_steps}); }),
        "expected 1 to 3 micro-steps");
  }
  BOOST_TEST(train(rank.module).applied);
}

BOOST_AUTO_TEST_CASE(a_step_with_too_few_or_too_many_micro_steps_is_refused_and_changes_nothing) {
  OneRank rank;
  check_mentions(error_of([&] {
                   auto step = rank.module.begin_step({.micro_steps = 2});
                   micro_step(step);
                   (void)step.finish();
                 }),
                 "2 micro-steps, but only 1 ran");
  BOOST_TEST(error_of([&] {
               auto step = rank.module.begin_step();
               micro_step(step);
               micro_step(step);
             }) != "no error");
  BOOST_TEST(rank.weight("layer.0.weight") == 8.0F);
  BOOST_TEST(rank.module.step() == 0);
  BOOST_TEST(train(rank.module).applied);
  BOOST_TEST(rank.weight("layer.0.weight") == 7.0F);
}

BOOST_AUTO_TEST_CASE(a_step_that_is_over_is_over) {
  OneRank rank;
  auto step = rank.module.begin_step();
  micro_step(step);
  (void)step.finish();
  check_mentions(error_of([&] { (void)step.finish(); }),
                 "finish was called on a step that is over");
  check_mentions(error_of([&] { step.forward(0); }), "forward was called on a step that is over");
  check_mentions(error_of([&] { step.backward(); }), "backward was called on a step that is over");
  step.abandon();  // nothing is left to forget
  BOOST_TEST(rank.module.step() == 1);
  auto next = rank.module.begin_step();
  step.abandon();  // is not the step that is open
  micro_step(next);
  BOOST_TEST(next.finish().applied);
}

BOOST_AUTO_TEST_CASE(a_step_left_anywhere_leaves_nothing_gathered_and_counts_no_gradient) {
  for (std::size_t stop = 0; stop <= 4 * units; ++stop) {
    OneRank rank;
    {
      auto step = rank.module.begin_step({.micro_steps = 2});
      std::size_t computes = 0;
      for (std::size_t m = 0; m < 2 && computes < stop; ++m) {
        for (std::size_t u = 0; u < units && computes < stop; ++u, ++computes)
          auto unit = step.forward(u);
        for (std::size_t u = units; u-- > 0 && computes < stop; ++computes) {
          auto unit = step.backward(u);
          add_one(unit);
        }
      }
    }
    BOOST_TEST(rank.module.gathered_bytes() == 0U);
    BOOST_TEST(rank.weight("layer.1.weight") == 8.0F);
    BOOST_TEST(train(rank.module, 2).applied);
    BOOST_TEST(rank.weight("layer.1.weight") == 6.0F);
    BOOST_TEST(rank.weight("table.weight") == 6.0F);
  }
}

BOOST_AUTO_TEST_CASE(an_exception_within_a_unit_abandons_the_step) {
  for (const bool in_backward : {false, true}) {
    OneRank rank;
    auto run = [&] {
      auto step = rank.module.begin_step();
      for (auto unit : step.forward()) {
        if (unit.index() == 2 && !in_backward) throw std::runtime_error("of the user");
      }
      for (auto unit : step.backward()) {
        add_one(unit);
        if (unit.index() == 2) throw std::runtime_error("of the user");
      }
    };
    BOOST_CHECK_THROW(run(), std::runtime_error);
    BOOST_TEST(rank.module.gathered_bytes() == 0U);
    BOOST_TEST(train(rank.module).applied);
    BOOST_TEST(rank.weight("layer.1.weight") == 7.0F);
    BOOST_TEST(rank.weight("head.weight") == 7.0F);
  }
}

BOOST_AUTO_TEST_CASE(an_evaluation_sees_the_weights_of_the_last_step_and_changes_none) {
  OneRank rank;
  for (int k = 0; k < 3; ++k) {
    for (int twice = 0; twice < 2; ++twice) {
      auto pass = rank.module.evaluate();
      for (auto unit : pass.forward()) {
        if (unit.index() == 1)
          BOOST_TEST(unit.weights<Layer>().weight[4] == 8.0F - static_cast<float>(k));
      }
    }
    BOOST_TEST(rank.module.step() == k);
    (void)train(rank.module);
  }
}

BOOST_AUTO_TEST_CASE(an_evaluation_may_end_before_its_last_unit) {
  OneRank rank;
  for (std::size_t last = 0; last <= units; ++last) {
    {
      auto pass = rank.module.evaluate();
      for (std::size_t u = 0; u < last; ++u) auto unit = pass.forward(u);
    }
    BOOST_TEST(rank.module.gathered_bytes() == 0U);
    BOOST_TEST(train(rank.module).applied);
    BOOST_TEST(rank.weight("layer.0.weight") == 7.0F - static_cast<float>(last));
  }
}

BOOST_AUTO_TEST_CASE(a_unit_that_is_skipped_in_both_passes_is_not_touched) {
  OneRank rank;
  auto step = rank.module.begin_step();
  for (auto unit : step.forward()) {
    if (unit.index() == 1) unit.skip();
  }
  for (auto unit : step.backward()) {
    if (unit.index() == 1) {
      unit.skip();
    } else {
      add_one(unit);
    }
  }
  BOOST_TEST(step.finish().applied);
  BOOST_TEST(rank.module.counter("layer.0.weight") == 0);
  BOOST_TEST(rank.module.counter("layer.1.weight") == 1);
  BOOST_TEST(rank.weight("layer.0.weight") == 8.0F);
  BOOST_TEST(rank.weight("layer.1.weight") == 7.0F);
}

BOOST_AUTO_TEST_CASE(a_unit_that_ran_in_one_pass_only_is_named) {
  OneRank rank;
  check_mentions(error_of([&] {
                   auto step = rank.module.begin_step();
                   for (auto unit : step.forward()) (void)unit;
                   for (std::size_t u : {3U, 1U, 0U}) auto unit = step.backward(u);
                   (void)step.finish();
                 }),
                 "unit 'layer.1' ran forward but not backward");
  BOOST_TEST(train(rank.module).applied);
}

BOOST_AUTO_TEST_CASE(a_backward_without_gradient_leaves_its_tensors_alone) {
  OneRank rank;
  auto step = rank.module.begin_step();
  check_mentions(error_of([&] {
                   auto unit = step.forward(0);
                   unit.no_gradient();
                 }),
                 "no_gradient");
  step.abandon();
  auto again = rank.module.begin_step();
  for (auto unit : again.forward()) (void)unit;
  for (auto unit : again.backward()) {
    if (unit.index() == 1) {
      unit.no_gradient(&Layer<float>::weight);
    } else if (unit.index() == 2) {
      unit.no_gradient();
    } else {
      add_one(unit);
    }
  }
  BOOST_TEST(again.finish().applied);
  BOOST_TEST(rank.module.counter("layer.0.weight") == 0);
  BOOST_TEST(rank.module.counter("layer.1.weight") == 0);
  BOOST_TEST(rank.module.counter("head.weight") == 1);
}

BOOST_AUTO_TEST_SUITE_END()
