// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Advice: what fits comes first, in the order of its speed, and each line says why.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <zero/plan/advice.hpp>
#include <zero/plan/checkpoint_interval.hpp>
#include <zero/plan/models.hpp>

BOOST_AUTO_TEST_SUITE(advice_test)

using namespace zero::plan;

Question question(std::string_view model, std::string_view device, std::size_t devices,
                  std::size_t batch = 0) {
  return {.model = *find_model(model),
          .machine = machine_of(*find_device(device)),
          .devices = devices,
          .global_batch = batch};
}
bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

BOOST_AUTO_TEST_CASE(what_fits_comes_first_and_faster_before_slower) {
  const Advice advice = advise(question("llama3-8b", "h100", 64, 1024));
  BOOST_TEST(advice.fitting > 10U);
  BOOST_TEST(advice.fitting < advice.candidates.size());
  for (std::size_t i = 0; i < advice.candidates.size(); ++i) {
    const Candidate& c = advice.candidates[i];
    BOOST_TEST(c.fits == (i < advice.fitting));
    BOOST_TEST(c.fits == (c.prediction.device_bytes() <= 80e9 * 0.92));
    BOOST_TEST(!c.reason.empty());
    BOOST_TEST(c.training.mesh.devices() == 64U);
    if (!c.fits) continue;
    BOOST_TEST(c.training.sequences * c.training.micro_steps == 16U);
    if (i == 0) continue;
    const double faster = advice.candidates[i - 1].prediction.tokens_per_second;
    BOOST_TEST(c.prediction.tokens_per_second <= 1.006 * faster);
  }
  BOOST_TEST(has(advice.conclusion, "is the fastest of"));
  // Both kinds of reason are there.
  BOOST_TEST(has(advice.candidates.front().reason, "bound by compute"));
  BOOST_TEST(has(advice.candidates.back().reason, "GB more: "));
}

BOOST_AUTO_TEST_CASE(a_model_that_fits_whole_is_not_sharded_for_nothing) {
  const Advice advice = advise(question("gpt2", "h100", 8, 64));
  const Candidate& best = *advice.best();
  const auto sent = [&](const char* stage) {
    for (const Candidate& c : advice.candidates) {
      if (c.stage == stage && c.training.recompute == Recompute::none) {
        return c.prediction.tokens_per_second;
      }
    }
    return 0.0;
  };
  BOOST_TEST((best.training.recompute == Recompute::none));
  BOOST_TEST(sent("zero1") > sent("zero3"));
}

BOOST_AUTO_TEST_CASE(when_nothing_fits_it_says_what_is_missing_and_that_is_so) {
  const Advice advice = advise(question("llama3-405b", "h200", 16));
  BOOST_TEST(advice.best() == nullptr);
  BOOST_TEST(has(advice.conclusion, "Nothing fits"));
  BOOST_TEST(has(advice.conclusion, "GB more"));
  const std::size_t at = advice.conclusion.find("fits on ");
  BOOST_REQUIRE(at != std::string::npos);
  const std::size_t enough = std::stoul(advice.conclusion.substr(at + 8));
  BOOST_TEST(advise(question("llama3-405b", "h200", enough)).fitting > 0U);
  BOOST_TEST(advise(question("llama3-405b", "h200", enough / 2)).fitting == 0U);
  // On one device all stages hold the same and Ddp has no slots: it comes nearest, but another
  // helps.
  const Advice one = advise(question("llama3-8b", "h100", 1));
  BOOST_TEST(has(one.conclusion, "ddp comes nearest"));
  BOOST_TEST(has(one.conclusion, "It fits on "));
  // Two blocks, their gradients and one sequence alone are too much for a smaller device.
  const Advice never = advise(question("llama3-405b", "h100", 16));
  BOOST_TEST(has(never.conclusion, "No number of devices helps"));
}

BOOST_AUTO_TEST_CASE(reasons_tell_the_host_from_communication) {
  Question asked = question("gpt2", "h100", 8, 8);
  asked.stage = "zero3";
  BOOST_TEST(!has(advise(asked).conclusion, "for the host"));
  asked.machine.host_us_per_step = 1000;
  BOOST_TEST(has(advise(asked).conclusion, "of the step for the host; "));
  asked.machine.host_us_per_step = 0;
  asked.machine.nic_bandwidth = asked.machine.device.link_bandwidth = 1e8;
  BOOST_TEST(has(advise(asked).conclusion, "of the step for communication"));
}

BOOST_AUTO_TEST_CASE(one_stage_can_be_asked_about_and_odd_devices_have_no_replicas) {
  Question asked = question("llama3-8b", "h100", 64);
  asked.stage = "zero3";
  for (const Candidate& c : advise(asked).candidates) BOOST_TEST(c.stage == "zero3");
  asked.stage = "hybrid";
  asked.devices = 7;
  BOOST_TEST(has(advise(asked).conclusion, "no way to try"));
}

// Source: Young, 1974; Daly, 2006, who finds the first term good while a save is short.
BOOST_AUTO_TEST_CASE(saves_are_as_far_apart_as_young_and_daly_say) {
  const double mtbf = 1e6, save = 10;
  const CheckpointPlan plan = checkpoint_plan(100, 100 * mtbf, save);
  BOOST_TEST(std::abs(plan.interval_seconds / (std::sqrt(2 * save * mtbf) - save) - 1) < 2e-3);
  // The loss is near sqrt(2 save / mtbf), and no other interval loses less.
  BOOST_TEST(std::abs(plan.lost_share / std::sqrt(2 * save / mtbf) - 1) < 0.01);
  const auto lost = [&](double interval) {
    return 1 - interval / (mtbf * std::expm1((interval + save) / mtbf));
  };
  BOOST_TEST(std::abs(plan.lost_share - lost(plan.interval_seconds)) < 1e-12);
  BOOST_TEST(plan.lost_share < lost(1.2 * plan.interval_seconds));
  BOOST_TEST(plan.lost_share < lost(plan.interval_seconds / 1.2));
  BOOST_TEST(checkpoint_plan(1000, 100 * mtbf, save).interval_seconds < plan.interval_seconds);
}

BOOST_AUTO_TEST_SUITE_END()
