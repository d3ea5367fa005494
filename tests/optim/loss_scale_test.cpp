// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <zero/optim/loss_scale.hpp>

BOOST_AUTO_TEST_SUITE(loss_scale_test)

using zero::LossScale;
using zero::LossScaleState;

constexpr LossScaleState after_overflows(const LossScale& scaling, std::size_t n) {
  LossScaleState state = scaling.begin();
  for (std::size_t i = 0; i < n; ++i) state = scaling.after_overflow(state);
  return state;
}
constexpr LossScaleState after_good_steps(const LossScale& scaling, LossScaleState state,
                                          std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) state = scaling.after_good_step(state);
  return state;
}

// B29
static_assert(after_overflows({.initial = 65536}, 5).scale == 2048);
static_assert(after_overflows({.initial = 65536}, 16).scale == 1);
static_assert(!LossScale{.initial = 65536}.at_floor(after_overflows({.initial = 65536}, 15)));
static_assert(LossScale{.initial = 65536}.at_floor(after_overflows({.initial = 65536}, 16)));
constexpr LossScale patient{.initial = 65536, .growth_interval = 3, .hysteresis = 2};
static_assert(after_overflows(patient, 1).scale == 65536);
static_assert(after_overflows(patient, 2).scale == 32768);
static_assert(after_overflows(patient, 3).scale == 16384);

// The floor need not be a power of two below the start.
static_assert(after_overflows({.initial = 10, .floor = 4}, 2).scale == 4);

// Patience returns when the scale grows, and an overflow begins the count of good steps anew.
constexpr LossScaleState grown = after_good_steps(patient, after_overflows(patient, 1), 3);
static_assert(grown == LossScaleState{.scale = 131072});
static_assert(patient.after_overflow(grown).scale == 131072);
constexpr LossScaleState broken =
    patient.after_overflow(after_good_steps(patient, patient.begin(), 2));
static_assert(after_good_steps(patient, broken, 2).scale == 65536);
static_assert(after_good_steps(patient, broken, 3).scale == 131072);

// A fixed scale has no floor that it could meet, and what is too large for a float does not grow.
static_assert(after_overflows(LossScale::fixed(7), 9) == LossScaleState{.scale = 7});
static_assert(!LossScale::fixed(7).at_floor(after_overflows(LossScale::fixed(7), 9)));
static_assert(after_good_steps(LossScale::fixed(7), {.scale = 7}, 5) == LossScaleState{.scale = 7});
static_assert(LossScale{.growth_interval = 1}.after_good_step({.scale = 0x1p127}).scale == 0x1p127);

BOOST_AUTO_TEST_CASE(the_rules_hold_at_run_time_too) {
  const LossScale scaling{.initial = 65536};
  scaling.check();
  BOOST_TEST(after_overflows(scaling, 4).scale == 4096);
}

BOOST_AUTO_TEST_SUITE_END()
