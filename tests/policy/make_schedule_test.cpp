// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// One schedule after the other is made, verified and hashed in the storage of the first.
#include <boost/test/unit_test.hpp>
#include <zero/policy/make_schedule.hpp>
#include <zero/schedule/hash.hpp>
#include <zero/schedule/verify.hpp>

#include "../counting_new.hpp"
#include "../schedule/stages.hpp"

BOOST_AUTO_TEST_SUITE(make_schedule_test)

using namespace tested;

BOOST_AUTO_TEST_CASE(a_schedule_of_at_most_as_many_steps_is_made_without_allocation) {
  for_each_stage([]<class S>(const char* name) {
    ScheduleMaker maker(stage_value<S>);
    Verifier verifier;
    Program program;
    Schedule schedule;
    const ModelShape model = transformer(6, true);
    fill_training(program, model.units(), 4);
    maker.make(schedule, model, program);
    verifier.verify(schedule);
    const std::size_t before = allocations;
    unsigned broken = 0;
    for (const std::size_t micro_steps : {1UL, 4UL, 2UL, 3UL, 0UL, 4UL}) {
      if (micro_steps == 0) {
        fill_evaluation(program, model.units());
      } else {
        fill_training(program, model.units(), micro_steps);
      }
      maker.make(schedule, model, program);
      broken += verifier.verify(schedule).rule != Rule::none;
    }
    BOOST_TEST(allocations == before, name);
    BOOST_TEST(broken == 0u, name);
  });
}

BOOST_AUTO_TEST_CASE(a_reused_maker_makes_what_a_fresh_one_makes) {
  for_each_stage([]<class S>(const char* name) {
    ScheduleMaker maker(stage_value<S>);
    Schedule reused;
    const Program big = training(7, 3), small = forwards_first(4, 2);
    maker.make(reused, ModelShape(7), big);
    maker.make(reused, two_groups(4), small);
    const Schedule fresh = make_schedule<S>(two_groups(4), small);
    BOOST_TEST((reused.steps == fresh.steps && reused.home == fresh.home), name);
    BOOST_TEST(hash(reused) == hash(fresh), name);
  });
}

// A gradient to which another unit has still to add cannot be reduced: there are as many at once.
BOOST_AUTO_TEST_CASE(slots_of_gradients_are_as_many_as_units_that_share_tensors_need) {
  const auto heads = [](std::size_t tied) {  // the last unit of each pair reads the first one's
    ModelShape model(2 * tied);
    for (std::size_t u = 0; u < tied; ++u) model.reads(tied + u, u);
    for (std::size_t g = 0; g < tied; ++g) model.kind(g, 1);
    return model;
  };
  for (const std::size_t tied : {1UL, 2UL, 3UL, 6UL}) {
    for (const std::size_t micro_steps : {1UL, 2UL}) {
      const ModelShape model = heads(tied);
      const Schedule s = make_schedule<Zero2>(model, training(model.units(), micro_steps));
      BOOST_TEST((verify(s).rule == Rule::none), tied);
      const std::size_t own = tied < 2 ? tied : 2;  // slots of the kind that nobody shares
      BOOST_TEST(extent(s, Space::grads_whole) == tied + own, tied);
    }
  }
}

/// Reduces nothing before the last backward.
struct Lazy {
  using shards = Gradients;
  static constexpr Slots slots{2, false};
  static constexpr void after_backward(ScheduleBuilder& s, std::size_t unit) {
    if (unit != 0) return;
    for (std::size_t u = 0; u < s.units(); ++u) s.reduce(u);
  }
};
// A policy that leaves gradients unreduced is still found.
BOOST_AUTO_TEST_CASE(a_gradient_that_could_have_been_reduced_takes_no_slot_of_another) {
  const auto rule = [](std::size_t units) {
    const StageValue stage = stage_value<Stage<ShardOptimizer<>, Lazy>>;
    return verify(make_schedule(stage, ModelShape(units), training(units))).rule;
  };
  BOOST_TEST((rule(2) == Rule::none));
  BOOST_TEST((rule(3) == Rule::bound));
}

BOOST_AUTO_TEST_CASE(a_schedule_is_remade_from_its_own_model_and_program) {
  Schedule schedule = make_schedule<Zero3>(ModelShape(4), training(4, 2));
  const Schedule before = schedule;
  ScheduleMaker maker(stage_value<Zero3>);
  maker.make(schedule, schedule.model, schedule.program);
  BOOST_TEST((schedule.steps == before.steps));
}

BOOST_AUTO_TEST_CASE(a_program_that_names_what_the_model_does_not_have_is_refused) {
  BOOST_CHECK_THROW(make_schedule<Zero3>(ModelShape(2), training(3)), ShapeError);
  Program late = training(2);
  late.computes[0].micro_step = 1;
  BOOST_CHECK_THROW(make_schedule<Zero3>(ModelShape(2), late), ShapeError);
  Program other = training(2);
  other.computes[0].op = Op::update;
  BOOST_CHECK_THROW(make_schedule<Zero3>(ModelShape(2), other), ShapeError);
}

BOOST_AUTO_TEST_CASE(a_program_that_computes_nonsense_breaks_rule_8) {
  Program first_unit_first = training(2);
  std::swap(first_unit_first.computes[2], first_unit_first.computes[3]);
  BOOST_TEST((verify(make_schedule<Zero3>(ModelShape(2), first_unit_first)).rule == Rule::none));
  Program backward_first = training(2);
  std::swap(backward_first.computes[1], backward_first.computes[2]);
  BOOST_TEST((verify(make_schedule<Zero3>(ModelShape(2), backward_first)).rule == Rule::order));
  Program twice = training(2);
  twice.computes.push_back(twice.computes.back());
  BOOST_TEST((verify(make_schedule<Zero3>(ModelShape(2), twice)).rule == Rule::order));
  Program without_update = training(2);
  without_update.updates = false;
  BOOST_TEST((verify(make_schedule<Zero3>(ModelShape(2), without_update)).rule == Rule::order));
}

BOOST_AUTO_TEST_SUITE_END()
