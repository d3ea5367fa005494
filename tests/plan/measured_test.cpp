// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Lengths of steps from measured executions, and pictures above one another.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>
#include <zero/plan/measured.hpp>
#include <zero/plan/simulate.hpp>
#include <zero/plan/timeline_svg.hpp>
#include <zero/policy/make_schedule.hpp>
#include <zero/policy/stages.hpp>

BOOST_AUTO_TEST_SUITE(measured_test)

using zero::Op;
using zero::Step;

const zero::Schedule& schedule() {
  static const zero::Schedule made =
      zero::make_schedule<zero::Zero3>(zero::transformer(6, true), zero::training(8));
  return made;
}
/// What a step takes depends on its operation and the kind of its unit: embedding, block, head.
double truth(const Step& step) {
  if (step.op == Op::release || step.op == Op::combine) return 0.25;
  const std::size_t kind = step.subject == 0 ? 1 : step.subject == 7 ? 2 : 0;
  return 1 + static_cast<double>(3 * static_cast<std::size_t>(step.op) + kind);
}

BOOST_AUTO_TEST_CASE(medians_by_kind_give_back_what_steps_took_whatever_one_execution_did) {
  const zero::List<zero::Span> one = zero::timeline(schedule(), truth);
  zero::List<zero::Span> all;
  for (int k = 0; k < 5; ++k) {
    for (zero::Span span : one) {
      if (k == 2) span.end += 1000;  // somebody else had the machine
      all.push_back(span);
    }
  }
  const zero::plan::MeasuredDuration duration(schedule(), all);
  double worst = 0;
  for (const Step& step : schedule().steps) {
    worst = std::max(worst, std::abs(duration(step) - truth(step)));
  }
  BOOST_TEST(worst < 1e-9);
  const double measured = zero::step_time(schedule(), truth);
  BOOST_TEST(std::abs(zero::plan::simulate(schedule(), duration).step_us - measured) < 1e-6);
  BOOST_TEST(zero::plan::MeasuredDuration(schedule(), {})(schedule().steps[0]) == 0.0);
}

BOOST_AUTO_TEST_CASE(executions_are_drawn_above_one_another_on_one_scale) {
  const zero::List<zero::Span> fast = zero::timeline(schedule(), truth);
  zero::List<zero::Span> slow = fast;
  for (zero::Span& span : slow) span.begin *= 2, span.end *= 2;
  const auto name = [](std::size_t unit) { return "unit" + std::to_string(unit); };
  const zero::TimelinePicture pictures[] = {{"fast", fast}, {"slow", slow}};
  std::ostringstream out;
  zero::print_timelines_svg(out, schedule(), pictures, name);
  const std::string svg = out.str();
  const auto count = [&](const char* part) {
    std::size_t found = 0;
    for (std::size_t at = svg.find(part); at != svg.npos; at = svg.find(part, at + 1)) ++found;
    return found;
  };
  BOOST_TEST(count("<svg ") == 1U);
  BOOST_TEST(count("</svg>") == 1U);
  BOOST_TEST(count("<pattern id=") == 1U);
  BOOST_TEST(count(">fast<") == 1U);
  BOOST_TEST(count(">slow<") == 1U);
  BOOST_TEST(count(">compute<") == 2U);
  // The same ticks in both: the last one of the slow picture is there twice.
  std::ostringstream alone;
  zero::print_timeline_svg(alone, schedule(), slow, "slow", name);
  const std::string last = alone.str().substr(0, alone.str().rfind(" ms</text>"));
  const std::string tick = last.substr(last.rfind('>'));
  BOOST_TEST(tick.size() > 1U);
  BOOST_TEST(count((tick + " ms</text>").c_str()) == 2U);
}

BOOST_AUTO_TEST_SUITE_END()
