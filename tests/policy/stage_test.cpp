// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How policies are put together.
#include <boost/test/unit_test.hpp>
#include <string>
#include <zero/policy/proof.hpp>

#include "../schedule/stages.hpp"

BOOST_AUTO_TEST_SUITE(stage_test)

using namespace tested;

static_assert(Ddp::traits == StageTraits{});
static_assert(Zero1::traits == StageTraits{.shards_optimizer = true});
static_assert(Zero2::traits == StageTraits{.shards_grads = true, .shards_optimizer = true});
static_assert(Zero3::traits == StageTraits{true, true, true});
static_assert(Hybrid::traits == StageTraits{true, true, true, true});
static_assert(Turns::traits.takes_turns && Turns::traits.replicates);
static_assert(
    std::is_same_v<Hybrid, Stage<Replicate, ShardOptimizer<>, ShardGrads<>, ShardParams<>>>);
static_assert(Zero3::slots<Parameters>().count == 2 && Zero3::slots<Gradients>().count == 2);
static_assert(Zero3::slots<Parameters>().grows && !Zero3::slots<Gradients>().grows);
static_assert(units_to_prove<Zero3> == 5 && units_to_prove<Mixed> == 7);
static_assert(ShardPolicy<TakeTurns> && !ShardPolicy<int>);

std::string calls;
template <char Name>
struct Noting {
  using shards = Nothing;
  static constexpr void before_forward(ScheduleBuilder&, std::size_t) { note('<'); }
  static constexpr void after_forward(ScheduleBuilder&, std::size_t) { note('>'); }
  static void note(char where) { calls += {where, Name}; }
};
/// Asks the builder during a step, and notes the answers.
struct Asking {
  using shards = Nothing;
  static void before_forward(ScheduleBuilder& s, std::size_t unit) { ask(s, unit); }
  static void before_backward(ScheduleBuilder& s, std::size_t unit) { ask(s, unit); }
  static void ask(ScheduleBuilder& s, std::size_t unit) {
    const auto show = [](std::size_t n) { return n == never ? "never" : std::to_string(n); };
    calls +=
        std::to_string(s.ahead(0)) + (s.ahead(1) == nowhere ? "." : std::to_string(s.ahead(1)));
    calls += " again in " + show(s.next_use(unit)) + (s.last_backward(unit) ? " last, " : ", ");
  }
};

BOOST_AUTO_TEST_CASE(policies_nest_like_scopes) {
  calls.clear();
  make_schedule<Stage<Noting<'a'>, Noting<'b'>>>(ModelShape(1), evaluation(1));
  BOOST_TEST(calls == "<a<b>b>a");
}

BOOST_AUTO_TEST_CASE(a_policy_sees_the_computes_to_come) {
  calls.clear();
  make_schedule<Stage<Asking>>(ModelShape(2), training(2));
  BOOST_TEST(calls == "01 again in 3, 11 again in 1, 10 again in never, 0. again in never, ");
}

BOOST_AUTO_TEST_CASE(only_units_near_the_turn_stay_whole) {
  const auto gathers = []<class S>() {
    const Schedule s = make_schedule<S>(ModelShape(6), training(6, 2));
    std::size_t n = 0;
    for (const Step& step : s.steps) n += step.op == Op::gather;
    return n;
  };
  BOOST_TEST((gathers.operator()<Deep<1, 1, 0>>() == 24u));  // each unit, each pass
  BOOST_TEST(gathers.operator()<Zero3>() == 24u - 3);        // three turns, one unit at each
  BOOST_TEST((gathers.operator()<Deep<1, 1, 2>>() == 24u - 6));
  BOOST_TEST(gathers.operator()<KeepAll>() == 6u);
  BOOST_TEST((gathers.operator()<Deep<3, 3, 1>>() == 24u - 3));  // looking ahead saves nothing
}

BOOST_AUTO_TEST_CASE(frozen_groups_are_gathered_but_never_reduced_or_updated) {
  const Schedule s = make_schedule<Zero3>(two_groups(3), training(3, 2));
  std::size_t gathered = 0, others = 0;
  for (const Step& step : s.steps) {
    if (computes(step.op) || step.op == Op::combine) continue;
    if (!s.model.group(step.subject).frozen) continue;
    gathered += step.op == Op::gather;
    others += step.op != Op::gather && step.op != Op::release;
  }
  BOOST_TEST(gathered ==
             12u - 3);  // three units, twice in each of two micro-steps, but at the turns
  BOOST_TEST(others == 0u);
}

BOOST_AUTO_TEST_CASE(an_evaluation_gathers_and_releases_and_does_nothing_else) {
  for_each_stage([]<class S>(const char* name) {
    const Schedule s = make_schedule<S>(transformer(3, true), evaluation(5));
    std::size_t others = 0;
    for (const Step& step : s.steps) {
      others += step.op != Op::gather && step.op != Op::release && step.op != Op::forward;
    }
    BOOST_TEST(others == 0u, name);
    BOOST_TEST(extent(s, Space::grads_whole) == 0u, name);
  });
}

BOOST_AUTO_TEST_CASE(
    every_training_step_has_one_norm_a_group_and_one_agreement_before_all_updates) {
  for_each_stage([]<class S>(const char* name) {
    const Schedule s = make_schedule<S>(transformer(3, true), training(5, 3));
    std::size_t norms = 0, combines = 0, early = 0;
    for (const Step& step : s.steps) {
      norms += step.op == Op::square_norm;
      combines += step.op == Op::combine;
      early += step.op == Op::update && (norms != 5 || combines != 1);
    }
    BOOST_TEST((norms == 5 && combines == 1 && early == 0), name);
  });
}

BOOST_AUTO_TEST_CASE(slots_do_not_grow_with_depth_of_the_model) {
  const Schedule s = make_schedule<Zero3>(ModelShape(100), training(100, 2));
  BOOST_TEST(extent(s, Space::params_whole) == 2u);
  BOOST_TEST(extent(s, Space::grads_whole) == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
