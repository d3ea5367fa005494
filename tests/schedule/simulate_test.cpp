// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Intact schedules are right in every order tried; each dropped wait is wrong in some order.
#include "simulate.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <zero/schedule/verify.hpp>

#include "stages.hpp"

BOOST_AUTO_TEST_SUITE(simulate_test)

using namespace tested;
using simulated::Outcome;
using simulated::Sharing;

constexpr unsigned orders = 300 / share;  // of an intact schedule
constexpr unsigned patience = 2000;       // orders until a dropped wait must have shown

struct Case {
  const char* name;
  ModelShape model;
  Program program;
};
std::vector<Case> cases() {
  return {{"1 unit", ModelShape(1), training(1)},
          {"2 units, 2 micro-steps", ModelShape(2), training(2, 2)},
          {"5 units, 3 micro-steps", ModelShape(5), training(5, 3)},
          {"tied", transformer(3, true), training(5, 2)},
          {"frozen", half_frozen(4), training(4, 2)},
          {"two groups a unit", two_groups(3), training(3, 2)},
          {"evaluation", transformer(2, true), evaluation(4)},
          {"another order", transformer(2, true), rotated(4, 2)},
          {"forwards first", ModelShape(3), forwards_first(3, 2)},
          {"upper half", ModelShape(4), upper_half(4, 2)},
          {"shared weights", ModelShape(3), shared_weights(3, 2)},
          {"two shared", ModelShape(2), ping_pong(2)},
          {"recomputing", ModelShape(4), recomputing(4, 2, 2)},
          {"recomputing, tied", transformer(2, true), recomputing(4, 1, 1)}};
}

/// Calls f(schedule, reference, description) for every stage and case.
template <class F>
void for_each_schedule(F f) {
  for_each_stage([&]<class S>(const char* stage) {
    for (const Case& c : cases()) {
      const Schedule s = make_schedule<S>(c.model, c.program);
      f(s, simulated::unsharded(s, simulated::world_of(s)), std::string(stage) + ", " + c.name);
    }
  });
}

BOOST_AUTO_TEST_CASE(every_legal_order_of_an_intact_schedule_gives_the_unsharded_result) {
  for_each_schedule(
      [](const Schedule& s, const simulated::Reference& ref, const std::string& what) {
        const Finding found = verify(s);
        BOOST_TEST((found.rule == Rule::none),
                   what << ": " << sentence(found.rule) << " " << found.step);
        unsigned correct = 0;
        for (unsigned seed = 0; seed < orders; ++seed) {
          const Sharing sharing = seed % 2 != 0 ? Sharing::in_order : Sharing::free;
          correct += simulated::simulate(s, ref, seed, sharing) == Outcome::correct;
        }
        BOOST_TEST(correct == orders, what);
      });
}

BOOST_AUTO_TEST_CASE(each_dropped_wait_is_rejected_and_gives_a_wrong_result_in_some_order) {
  unsigned found = 0, dropped = 0;
  for_each_schedule(
      [&](const Schedule& s, const simulated::Reference& ref, const std::string& what) {
        for (std::size_t i = 0; i < s.steps.size(); ++i) {
          for (std::size_t t = 0; t < stream_count; ++t) {
            if (s.steps[i].waits[t] == no_wait || ++found % share != 0) continue;
            Schedule mutant = s;
            mutant.steps[i].waits[t] = no_wait;
            ++dropped;
            const std::string where = what + ": step " + std::to_string(i);
            BOOST_TEST((verify(mutant).rule != Rule::none), where);
            bool shown = false;
            for (unsigned seed = 0; seed < patience && !shown; ++seed) {
              shown = simulated::simulate(mutant, ref, seed, Sharing::free) == Outcome::wrong;
              if (s.traits.takes_turns && !shown) {  // a turn that is not taken blocks
                shown = simulated::simulate(mutant, ref, seed, Sharing::crowded_streams) !=
                        Outcome::correct;
              }
            }
            BOOST_TEST(shown, where);
          }
        }
      });
  BOOST_TEST_MESSAGE(dropped << " waits dropped");
  BOOST_TEST(dropped > 4000u / share);
}

// On a device with room for one collective, two communicators block each other in some orders.
BOOST_AUTO_TEST_CASE(
    only_stages_that_take_turns_make_progress_where_collectives_exclude_each_other) {
  const auto blocked = []<class S>(Sharing sharing) {
    const Schedule s = make_schedule<S>(ModelShape(4), training(4, 2));
    const simulated::Reference ref = simulated::unsharded(s, simulated::world_of(s));
    unsigned n = 0;
    for (unsigned seed = 0; seed < 200; ++seed) {
      n += simulated::simulate(s, ref, seed, sharing) == Outcome::blocked;
    }
    return n;
  };
  using TurnsZero3 = Stage<TakeTurns, ShardOptimizer<>, ShardGrads<>, ShardParams<>>;
  BOOST_TEST(blocked.operator()<Zero3>(Sharing::crowded) == 0u);
  BOOST_TEST(blocked.operator()<Zero3>(Sharing::crowded_streams) > 0u);
  BOOST_TEST(blocked.operator()<TurnsZero3>(Sharing::crowded_streams) == 0u);
  BOOST_TEST(blocked.operator()<Hybrid>(Sharing::crowded) > 0u);
  BOOST_TEST(blocked.operator()<Turns>(Sharing::crowded) == 0u);
  BOOST_TEST(blocked.operator()<Turns>(Sharing::crowded_streams) == 0u);
  BOOST_TEST(blocked.operator()<Hpz>(Sharing::crowded) > 0u);
  BOOST_TEST(blocked.operator()<TurnsHpz>(Sharing::crowded) == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
