// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/optim/lion.hpp>
#include <zero/optim/update.hpp>

#include "conformance.hpp"

BOOST_AUTO_TEST_SUITE(lion_test)

struct Plain {
  static zero::Lion make() { return {}; }
};
struct Fast {
  static zero::Lion make() {
    return {.learning_rate = 0.3, .beta1 = 0.5F, .beta2 = 0.75F, .weight_decay = 0.5F};
  }
};
using Models = std::tuple<Plain, Fast>;

#include "conformance_cases.hpp"

constexpr bool moves_in_the_compiler() {
  float weight = 5, m = -4;
  zero::Lion::element({0.5F, 0.5F, 0.25F, 0.75F, 2, 0.5F}, 8, weight, m);
  return m == 5 && weight == 0.5F;
}
static_assert(moves_in_the_compiler());

BOOST_AUTO_TEST_CASE(chen_et_al_2023_algorithm_2) {
  const double eta = 0.0078125, lambda = 0.25, b1 = 0.9F, b2 = 0.99F;
  const zero::Lion optimizer{.learning_rate = eta, .weight_decay = lambda};
  constexpr std::size_t n = 100;
  std::vector<float> weight(n), gradient(n), m(n, 0);
  std::vector<double> theta(n), momentum(n, 0);
  for (std::size_t i = 0; i < n; ++i) theta[i] = weight[i] = static_cast<float>(i) * 0.125F - 6;
  std::size_t signs[3] = {};
  for (int t = 1; t <= 300; ++t) {
    for (std::size_t i = 0; i < n; ++i) {
      const double wave = std::sin(0.37 * t + static_cast<double>(i * i));
      gradient[i] = i == 0 ? 0.0F : static_cast<float>(wave);
      const double g = gradient[i];
      const double c = b1 * momentum[i] + (1 - b1) * g;  // update model parameters
      const double sign = c > 0 ? 1 : c < 0 ? -1 : 0;
      ++signs[static_cast<int>(sign) + 1];
      theta[i] = theta[i] - eta * (sign + lambda * theta[i]);
      momentum[i] = b2 * momentum[i] + (1 - b2) * g;  // update EMA of g
    }
    float* const states[] = {m.data()};
    zero::update<zero::Lion, float>(optimizer.coefficients(t, t - 1, true), 1, 1, gradient.data(),
                                    weight.data(), nullptr, states, n);
  }
  for (const std::size_t count : signs) BOOST_TEST(count > 0U);
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i) worst = std::max(worst, std::fabs(weight[i] - theta[i]));
  BOOST_TEST(worst < 1e-5);  // a sign that went the other way would be 0.0156
}

BOOST_AUTO_TEST_CASE(settings_that_make_no_sense_are_refused) {
  for (const zero::Lion& wrong : {zero::Lion{.learning_rate = -1},
                                  {.beta1 = 1},
                                  {.beta2 = -1},
                                  {.weight_decay = std::nanf("")}}) {
    BOOST_CHECK_THROW(wrong.check(), zero::ContractError);
  }
  zero::Lion{}.check();
}

BOOST_AUTO_TEST_SUITE_END()
