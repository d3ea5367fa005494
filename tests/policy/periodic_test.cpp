// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Any number of units: every stage is verified for many, and what happens to a unit is shown not to
// depend on how many units there are, but at the two ends. So a proof for few units speaks for all.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <string>
#include <zero/policy/proof.hpp>

#include "../schedule/stages.hpp"

BOOST_AUTO_TEST_SUITE(periodic_test)

using namespace tested;

/// What happens to each unit, as text: steps, their waits relative to it, and modes; no slots.
std::vector<std::string> lives(const Schedule& s) {
  const int n = static_cast<int>(s.model.units());
  std::vector<std::string> life(s.model.units());
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    const Step& step = s.steps[i];
    std::string& text = life[step.subject];
    text += info(step.op).name + std::to_string(step.micro_step);
    for (const std::uint32_t w : step.waits) {
      if (w == no_wait) continue;
      const Step& other = s.steps[w];
      const int to = other.subject, distance = to - step.subject;
      const std::string where = std::abs(distance) <= 6 ? std::to_string(distance)
                                : 2 * to < n            ? "begin+" + std::to_string(to)
                                                        : "end-" + std::to_string(n - to);
      text += std::string("<") + info(other.op).name + where + "." +
              std::to_string(other.micro_step) + (w < i ? "" : "'");
    }
    for (const Access& a : step) text += " rwu"[static_cast<std::size_t>(a.mode)];
    text += step.signals ? "* " : " ";
  }
  return life;
}
/// The smallest number of units at the ends such that all units between live alike, or too many.
std::size_t ends(const std::vector<std::string>& life) {
  for (std::size_t end = 0; 2 * end + 2 < life.size(); ++end) {
    bool alike = true;
    for (std::size_t u = end; u + end + 1 < life.size(); ++u) {
      alike = alike && life[u] == life[u + 1];
    }
    if (alike) return end;
  }
  return life.size();
}

BOOST_AUTO_TEST_CASE(every_stage_obeys_all_rules_for_1_to_64_units) {
  Verifier verifier;
  for_each_stage([&]<class S>(const char* name) {
    ScheduleMaker maker(stage_value<S>);
    Schedule schedule;
    for (std::size_t units = 1; units <= 64; ++units) {
      for (std::size_t micro_steps = 0; micro_steps <= 3; ++micro_steps) {
        const Program program = micro_steps == 0 ? evaluation(units) : training(units, micro_steps);
        maker.make(schedule, ModelShape(units), program);
        const Finding found = verifier.verify(schedule);
        BOOST_TEST((found.rule == Rule::none), name << ", " << units << " units, " << micro_steps
                                                    << " micro-steps: " << sentence(found.rule));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(units_live_alike_but_near_the_ends_however_many_there_are) {
  for_each_stage([&]<class S>(const char* name) {
    constexpr std::size_t units = 48;
    const auto life = lives(make_schedule<S>(ModelShape(units), training(units, 2)));
    const std::size_t end = ends(life);
    BOOST_TEST_MESSAGE(name << ": " << end << " units at an end, proved for " << units_to_prove<S>);
    BOOST_TEST(2 * end + 1 <= units_to_prove<S>, name);
    // Slots take turns, so that what happens at the ends may depend on the number of units modulo
    // q.
    bool repeats = false;
    for (std::size_t q = 1; q <= 12 && !repeats; ++q) {
      repeats = true;
      for (std::size_t fewer = units - q; fewer >= 2 * end + q && repeats; fewer -= q) {
        const auto other = lives(make_schedule<S>(ModelShape(fewer), training(fewer, 2)));
        for (std::size_t u = 0; u < fewer && repeats; ++u) {
          repeats = other[u] == (u + end < fewer ? life[u] : life[u + units - fewer]);
        }
      }
    }
    BOOST_TEST(repeats, name);
  });
}

BOOST_AUTO_TEST_SUITE_END()
