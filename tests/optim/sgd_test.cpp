// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/optim/scheduled.hpp>
#include <zero/optim/sgd.hpp>
#include <zero/optim/update.hpp>

#include "conformance.hpp"

BOOST_AUTO_TEST_SUITE(sgd_test)

struct Plain {
  static zero::Sgd make() { return {.learning_rate = 0.3, .weight_decay = 0.1F}; }
};
struct Momentum {
  static zero::Sgd make() { return {.learning_rate = 0.3, .momentum = 0.9F, .weight_decay = 0.1F}; }
};
using Models = std::tuple<Plain, Momentum>;

#include "conformance_cases.hpp"

constexpr bool moves_in_the_compiler() {
  float weight = 5, m = 2;
  zero::Sgd::element({2, 0.5F, 1}, 3, weight, m);
  return m == 9 && weight == -13;
}
static_assert(moves_in_the_compiler());

BOOST_AUTO_TEST_CASE(integers_are_updated_exactly) {
  std::vector<float> start, gradient;
  for (int i = 0; i < 200; ++i) {
    start.push_back(static_cast<float>(i * i - 5000));
    gradient.push_back(static_cast<float>(i - 100));
  }
  const auto moved = conformance::after(zero::Sgd{.learning_rate = 1}, start, gradient, true);
  for (std::size_t i = 0; i < 200; ++i) BOOST_REQUIRE(moved[i] == start[i] - gradient[i]);
}

BOOST_AUTO_TEST_CASE(tensors_of_any_shape_move_by_the_learning_rate_times_the_gradient) {
  for (const std::size_t n : std::vector<std::size_t>{2 * 3, 1 * 9, 9 * 1, 57}) {
    const auto moved = conformance::after(zero::Sgd{.learning_rate = 0.5F},
                                          std::vector<float>(n, 1), std::vector<float>(n, 4), true);
    for (const float weight : moved) BOOST_TEST(weight == -1);
  }
}

BOOST_AUTO_TEST_CASE(momentum_sums_what_came_before) {
  const auto c = zero::Sgd{.learning_rate = 1, .momentum = 0.5F}.coefficients(1, 0, true);
  float weight = 0, gradient = 4, m = 0;
  float* const states[] = {&m};
  const float expected[] = {-4, -10, -17};  // 4, 2 + 4, 3 + 4
  for (const float value : expected) {
    zero::update<zero::Sgd, float>(c, 1, 1, &gradient, &weight, nullptr, states, 1);
    BOOST_TEST(weight == value);
  }
  BOOST_TEST(m == 7);
}

BOOST_AUTO_TEST_CASE(decay_is_added_to_the_gradient) {
  const zero::Sgd optimizer{.learning_rate = 0.5F, .weight_decay = 0.25F};
  BOOST_TEST(conformance::after(optimizer, {8}, {2}, true)[0] == 6);
  BOOST_TEST(conformance::after(optimizer, {8}, {2}, false)[0] == 7);
}

BOOST_AUTO_TEST_CASE(a_gradient_of_norm_5_clipped_to_1_moves_by_its_direction) {
  const auto c = zero::Sgd{.learning_rate = 1}.coefficients(1, 0, true);
  std::vector<float> weight{0, 0}, gradient{3, 4}, m{0, 0};
  float* const states[] = {m.data()};
  zero::update<zero::Sgd, float>(c, 1, 1.0F / 5, gradient.data(), weight.data(), nullptr, states,
                                 2);
  BOOST_TEST(std::fabs(weight[0] + 0.6F) < 1e-6F);
  BOOST_TEST(std::fabs(weight[1] + 0.8F) < 1e-6F);
}

BOOST_AUTO_TEST_CASE(settings_that_make_no_sense_are_refused) {
  for (const zero::Sgd& wrong : {zero::Sgd{.learning_rate = -1},
                                 {.momentum = -0.5F},
                                 {.momentum = HUGE_VALF},
                                 {.weight_decay = std::nanf("")}}) {
    BOOST_CHECK_THROW(wrong.check(), zero::ContractError);
  }
  zero::Sgd{.learning_rate = 0, .momentum = 1}.check();
}

BOOST_AUTO_TEST_SUITE_END()
