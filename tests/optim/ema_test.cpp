// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/ema.hpp>
#include <zero/optim/sgd.hpp>
#include <zero/optim/update.hpp>

#include "conformance.hpp"

BOOST_AUTO_TEST_SUITE(ema_test)

struct OfAdamW {
  static zero::Ema<zero::AdamW> make() { return {.optimizer = {.learning_rate = 0.1}}; }
};
struct OfSgd {
  static auto make() {
    return zero::Ema<zero::Sgd>{.optimizer = {.learning_rate = 0.3, .weight_decay = 0.1},
                                .decay = 0.5F};
  }
};
using Models = std::tuple<OfAdamW, OfSgd>;

#include "conformance_cases.hpp"

static_assert(zero::Optimizer<zero::Ema<zero::Ema<zero::AdamW>>>);
static_assert(zero::Ema<zero::AdamW>::states == 3 && zero::Ema<zero::AdamW>::average == 2);

BOOST_AUTO_TEST_CASE(weights_and_states_are_those_of_the_optimizer_alone) {
  const zero::AdamW adam{.learning_rate = 0.1F, .weight_decay = 0.5F};
  const zero::Ema<zero::AdamW> both{.optimizer = adam};
  conformance::Arrays<zero::AdamW> alone(1100);
  conformance::Arrays<zero::Ema<zero::AdamW>> averaged(1100);
  averaged.gradient = alone.gradient;
  averaged.master = alone.master;
  for (std::size_t k = 0; k < 2; ++k) averaged.states[k] = alone.states[k];
  alone.update(adam.coefficients(2, 1, true), 0, 1100);
  averaged.update(both.coefficients(2, 1, true), 0, 1100);
  BOOST_TEST((conformance::bits(averaged.master) == conformance::bits(alone.master)));
  for (std::size_t k = 0; k < 2; ++k) {
    BOOST_TEST((conformance::bits(averaged.states[k]) == conformance::bits(alone.states[k])));
  }
}

// B42
BOOST_AUTO_TEST_CASE(weights_1_2_3_have_averages_0_5_and_1_25_and_2_125) {
  const zero::Ema<zero::Sgd> optimizer{.optimizer = {.learning_rate = 1}, .decay = 0.5F};
  float weight = 0, gradient = -1, m = 0, average = 0;
  float* const states[] = {&m, &average};
  for (const float expected : {0.5F, 1.25F, 2.125F}) {
    zero::update<zero::Ema<zero::Sgd>, float>(optimizer.coefficients(1, 0, true), 1, 1, &gradient,
                                              &weight, nullptr, states, 1);
    BOOST_TEST(average == expected);
  }
  BOOST_TEST(weight == 3);
}

BOOST_AUTO_TEST_CASE(settings_that_make_no_sense_are_refused) {
  for (const float decay : {1.0F, -0.5F, std::nanf("")}) {
    BOOST_CHECK_THROW((zero::Ema<zero::Sgd>{.decay = decay}.check()), zero::ContractError);
  }
  BOOST_CHECK_THROW((zero::Ema<zero::Sgd>{.optimizer = {.learning_rate = -1}}.check()),
                    zero::ContractError);
  zero::Ema<zero::Sgd>{}.check();
}

BOOST_AUTO_TEST_SUITE_END()
