// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Every rule has a sentence, and the verifier says where it is broken.
#include <boost/test/unit_test.hpp>
#include <set>
#include <string>
#include <zero/schedule/verify.hpp>

#include "stages.hpp"

BOOST_AUTO_TEST_SUITE(rules_test)

using namespace tested;

BOOST_AUTO_TEST_CASE(every_rule_has_a_sentence_that_begins_with_its_number) {
  for (int rule = 1; rule <= 10; ++rule) {
    const std::string text = sentence(static_cast<Rule>(rule));
    BOOST_TEST(text.starts_with("rule R" + std::to_string(rule) + ": "));
  }
  BOOST_TEST(std::string(sentence(Rule::none)) == "all rules are obeyed");
}

BOOST_AUTO_TEST_CASE(a_finding_names_the_step_and_its_subject) {
  Schedule s = make_schedule<Zero3>(ModelShape(4), training(4));
  BOOST_TEST((s.steps[5].op == Op::forward && s.steps[5].subject == 1));
  s.steps[5].waits[static_cast<std::size_t>(StreamId::gather)] = no_wait;
  BOOST_TEST((verify(s) == Finding{Rule::lifetime, 1, 5, 1}));
}

BOOST_AUTO_TEST_CASE(a_missing_wait_across_the_boundary_is_rule_10) {
  Schedule s = make_schedule<Zero3>(ModelShape(4), training(4));
  BOOST_TEST((s.steps[0].op == Op::gather));
  for (std::uint32_t& wait : s.steps[0].waits) wait = no_wait;
  BOOST_TEST((verify(s).rule == Rule::boundary));
}

BOOST_AUTO_TEST_CASE(a_wait_for_a_step_that_does_not_signal_is_rule_9) {
  Schedule s = make_schedule<Zero3>(ModelShape(4), training(4));
  s.steps[0].signals = false;
  BOOST_TEST((verify(s).rule == Rule::waits));
}

BOOST_AUTO_TEST_CASE(an_operand_beyond_its_space_is_rule_7) {
  Schedule s = make_schedule<Zero3>(ModelShape(4), training(4));
  s.steps[0].accesses[1].index = 2;
  BOOST_TEST((verify(s).rule == Rule::bound));
}

BOOST_AUTO_TEST_CASE(a_missing_turn_is_rule_9) {
  Schedule s = make_schedule<Turns>(ModelShape(2), training(2));
  BOOST_TEST((s.steps[0].accesses[2].space == Space::device));
  --s.steps[0].access_count;
  BOOST_TEST((verify(s).rule == Rule::waits));
}

BOOST_AUTO_TEST_CASE(the_program_of_another_schedule_is_rule_8) {
  Schedule s = make_schedule<Zero3>(ModelShape(4), training(4));
  s.program = rotated(4, 1);
  BOOST_TEST((verify(s).rule == Rule::order));
}

BOOST_AUTO_TEST_CASE(one_set_of_activations_for_two_micro_steps_at_once_is_rule_8) {
  Schedule s = make_schedule<Zero3>(ModelShape(2), forwards_first(2, 2));
  for (Step& step : s.steps) {
    for (Access& access : step.accesses) {
      if (access.space == Space::activations) access.index = step.subject;
    }
  }
  find_waits(s);
  BOOST_TEST((verify(s).rule == Rule::order));
}

/// Zero3 of ping_pong(1) after `change` of its program.
template <class F>
Rule rule_of(F change) {
  Program program = ping_pong(1);
  change(program.computes);
  return verify(make_schedule<Zero3>(ModelShape(2), program)).rule;
}

BOOST_AUTO_TEST_CASE(each_use_of_a_unit_has_activations_of_its_own) {
  const auto nothing = [](zero::List<Compute>&) {};
  BOOST_TEST((rule_of(nothing) == Rule::none));
  BOOST_TEST((rule_of([](auto& c) { c[4].use = 0; }) == Rule::order));  // reads them twice
  BOOST_TEST((rule_of([](auto& c) { c[2].use = 0; }) == Rule::order));  // overwrites them
  BOOST_TEST((rule_of([](auto& c) { c.insert(c.begin() + 4, c[2]); }) == Rule::none));  // again
  BOOST_TEST((rule_of([](auto& c) { c.insert(c.begin() + 6, c[5]); }) == Rule::order));
  Schedule s = make_schedule<Zero3>(ModelShape(2), ping_pong(1));
  for (Step& step : s.steps) {
    for (Access& access : step.accesses) {
      if (access.space == Space::activations) access.index = step.subject;
    }
  }
  find_waits(s);
  BOOST_TEST((verify(s).rule == Rule::order));
}

BOOST_AUTO_TEST_CASE(a_gradient_is_reduced_once_for_all_uses_of_its_unit_in_a_micro_step) {
  for_each_stage([]<class S>(const char* name) {
    const Schedule s = make_schedule<S>(ModelShape(3), shared_weights(3, 2));
    const bool syncs = std::string(name).find("no sync") == std::string::npos;
    const bool each = s.traits.shards_grads && syncs;
    const Op op = s.traits.shards_optimizer ? Op::reduce_scatter : Op::all_reduce;
    std::size_t reductions = 0;
    for (const Step& step : s.steps) reductions += step.op == op && step.subject == 0;
    BOOST_TEST(reductions == (each ? 2U : 1U), name);
    BOOST_TEST((verify(s).rule == Rule::none), name);
  });
}

BOOST_AUTO_TEST_SUITE_END()
