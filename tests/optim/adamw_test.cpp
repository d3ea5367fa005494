// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/update.hpp>

#include "conformance.hpp"

BOOST_AUTO_TEST_SUITE(adamw_test)

struct Plain {
  static zero::AdamW make() { return {}; }
};
struct Fast {
  static zero::AdamW make() {
    return {.learning_rate = 0.1, .beta1 = 0.5F, .beta2 = 0.75F, .weight_decay = 0.5F};
  }
};
using Models = std::tuple<Plain, Fast>;

#include "conformance_cases.hpp"

// The rule for one element is a constant expression.
constexpr bool moves_in_the_compiler() {
  const zero::AdamW::Coefficients c{0.5F, 0.5F, 0.75F, 0.25F, 0.5F, 2, 2, 0};
  float weight = 5, m = 0, v = 0;
  zero::AdamW::element(c, 3, weight, m, v);
  return m == 1.5F && v == 2.25F && weight == 1.5F;
}
static_assert(moves_in_the_compiler());
static_assert(zero::detail::square_root(2.0F) == 1.41421356F);
static_assert(zero::detail::square_root(0) == 0 && zero::detail::square_root(1e-20F) == 1e-10F);

constexpr float rate = 0.1F;
const zero::AdamW plain{.learning_rate = rate, .weight_decay = 0};

BOOST_AUTO_TEST_CASE(the_first_step_moves_by_the_learning_rate_against_the_sign) {
  const auto moved = conformance::after(plain, {0, 0, 0, 0, 0}, {1, -1, 0.125F, 1000, 1e15F}, true);
  const float expected[] = {-rate, rate, -rate, -rate, -rate};
  for (std::size_t i = 0; i < 5; ++i) BOOST_TEST(std::fabs(moved[i] - expected[i]) < 1e-6F);
}

BOOST_AUTO_TEST_CASE(sixty_tensors_of_one_element_and_six_of_seven_all_move) {
  std::vector<float> weight(102, 0), gradient(102, 1), m(102, 0), v(102, 0);
  const auto c = plain.coefficients(1, 0, true);
  std::size_t at = 0;
  const auto update = [&](std::size_t n) {
    float* const states[] = {&m[at], &v[at]};
    zero::update<zero::AdamW, float>(c, 1, 1, &gradient[at], &weight[at], nullptr, states, n);
    at += n;
  };
  for (int i = 1; i <= 60; ++i) {
    update(1);
    if (i % 10 == 0) update(7);
  }
  BOOST_TEST(at == 102U);
  for (const float w : weight) BOOST_TEST(std::fabs(w + rate) < 1e-6F);
}

BOOST_AUTO_TEST_CASE(loshchilov_hutter_2019_algorithm_2) {
  const double alpha = 0.01, lambda = 0.1, b1 = 0.9F, b2 = 0.999F, epsilon = 1e-8F;
  const zero::AdamW optimizer{
      .learning_rate = alpha, .epsilon = 1e-8F, .weight_decay = static_cast<float>(lambda)};
  constexpr std::size_t n = 100;
  std::vector<float> weight(n), gradient(n), m(n, 0), v(n, 0);
  std::vector<double> theta(n), first(n, 0), second(n, 0);
  for (std::size_t i = 0; i < n; ++i) { theta[i] = weight[i] = static_cast<float>(i) * 0.125F - 6; }
  for (int t = 1; t <= 300; ++t) {
    for (std::size_t i = 0; i < n; ++i) {
      gradient[i] = static_cast<float>(std::sin(0.37 * t + static_cast<double>(i * i)));
      const double g = gradient[i];
      first[i] = b1 * first[i] + (1 - b1) * g;        // line 7
      second[i] = b2 * second[i] + (1 - b2) * g * g;  // line 8
      const double m_hat = first[i] / (1 - std::pow(b1, t));
      const double v_hat = second[i] / (1 - std::pow(b2, t));
      // Line 12 with eta = 1, and with lambda multiplied by alpha.
      theta[i] -= alpha * m_hat / (std::sqrt(v_hat) + epsilon) + alpha * lambda * theta[i];
    }
    float* const states[] = {m.data(), v.data()};
    zero::update<zero::AdamW, float>(optimizer.coefficients(t, t - 1, true), 1, 1, gradient.data(),
                                     weight.data(), nullptr, states, n);
  }
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i) worst = std::max(worst, std::fabs(weight[i] - theta[i]));
  BOOST_TEST(worst < 1e-5);  // weights of up to 6.5: some 20 units in the last place
}

BOOST_AUTO_TEST_CASE(the_corrections_fade_with_the_number_of_updates) {
  const auto c = plain.coefficients(1000000, 0, true);
  BOOST_TEST(c.rate == rate);
  BOOST_TEST(c.root_scale == 1);
}

BOOST_AUTO_TEST_CASE(decay_is_decoupled_from_the_gradient) {
  // Without a gradient the weight shrinks by rate * decay, and the moments see nothing of it.
  const zero::AdamW optimizer{.learning_rate = 0.5F, .weight_decay = 0.5F};
  float weight = 8, gradient = 0, m = 0, v = 0;
  float* const states[] = {&m, &v};
  for (int t = 1; t <= 3; ++t) {
    zero::update<zero::AdamW, float>(optimizer.coefficients(t, t - 1, true), 1, 1, &gradient,
                                     &weight, nullptr, states, 1);
  }
  BOOST_TEST(weight == 8 * 0.75F * 0.75F * 0.75F);
  BOOST_TEST(m == 0);
  BOOST_TEST(v == 0);
}

BOOST_AUTO_TEST_CASE(a_gradient_whose_square_is_too_large_makes_no_nan) {
  const auto moved = conformance::after(plain, {1}, {1e30F}, true);
  BOOST_TEST(moved[0] == 1);
}

BOOST_AUTO_TEST_CASE(the_square_root_is_that_of_the_standard_library) {
  std::size_t wrong = 0;
  for (std::uint32_t bits = 0; bits <= 0x7F800000; bits += 4099) {
    const float x = std::bit_cast<float>(bits);
    wrong += std::bit_cast<std::uint32_t>(zero::detail::square_root(x)) !=
             std::bit_cast<std::uint32_t>(std::sqrt(x));
  }
  BOOST_TEST(wrong == 0U);
}

BOOST_AUTO_TEST_CASE(settings_that_make_no_sense_are_refused_by_name) {
  const float nan = std::nanf("");
  const auto text_of = [](const zero::AdamW& optimizer) {
    try {
      optimizer.check();
    } catch (const zero::ContractError& error) { return std::string(error.what()); }
    return std::string();
  };
  const std::pair<zero::AdamW, const char*> wrong[] = {
      {{.learning_rate = -1}, "AdamW::learning_rate is -1"},
      {{.learning_rate = nan}, "AdamW::learning_rate is nan"},
      {{.learning_rate = HUGE_VALF}, "AdamW::learning_rate is inf"},
      {{.beta1 = 1}, "AdamW::beta1 is 1"},
      {{.beta1 = nan}, "AdamW::beta1"},
      {{.beta2 = -0.5F}, "AdamW::beta2 is -0.5"},
      {{.epsilon = 0}, "AdamW::epsilon is 0"},
      {{.epsilon = nan}, "AdamW::epsilon"},
      {{.weight_decay = -0.1F}, "AdamW::weight_decay is -0.1"}};
  for (const auto& [optimizer, what] : wrong) {
    BOOST_TEST(text_of(optimizer).find(what) != std::string::npos, text_of(optimizer));
  }
  BOOST_TEST(text_of({}).empty());
  BOOST_TEST(text_of({.learning_rate = 0, .beta1 = 0, .beta2 = 0, .weight_decay = 0}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
