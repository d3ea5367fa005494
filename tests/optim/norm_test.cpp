// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/optim/norm.hpp>

BOOST_AUTO_TEST_SUITE(norm_test)

constexpr double infinity = std::numeric_limits<double>::infinity();

double norm(double order, const std::vector<float>& values) {
  return zero::norm_of(order, values.data(), values.size());
}
double part(double order, const std::vector<float>& values, std::size_t cut) {
  zero::NormPart made(order);
  made.add(values.data(), cut);
  made.add(values.data() + cut, values.size() - cut);
  return made.value();
}

BOOST_AUTO_TEST_CASE(norms_of_integers_are_exact_where_the_root_is) {
  BOOST_TEST(norm(1, {3, -4, 5}) == 12);
  BOOST_TEST(norm(3, {3, 4, -5}) == 6);
  BOOST_TEST(norm(2, {-3, 4}) == 5);
  BOOST_TEST(norm(infinity, {3, -7, 5}) == 7);
}

BOOST_AUTO_TEST_CASE(nothing_and_zeros_have_norm_zero) {
  for (const double order : {1.0, 2.0, 2.5, infinity}) {
    BOOST_TEST(norm(order, {}) == 0);
    BOOST_TEST(norm(order, {0, -0.0F, 0}) == 0);
    BOOST_TEST(part(order, {}, 0) == 0);
  }
}

BOOST_AUTO_TEST_CASE(powers_neither_overflow_nor_vanish) {
  for (const double order : {1.0, 3.0, 63.0, 64.0, 1e9, infinity}) {
    for (const float size : {3e38F, 1e-45F, 1.5F}) {
      const double expected = size * std::pow(4.0, 1 / order);
      BOOST_TEST(std::fabs(norm(order, {size, size, -size, size}) - expected) <= 1e-14 * expected);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_norm_of_the_norms_of_parts_is_that_of_the_whole) {
  std::vector<float> values;
  for (int i = 0; i < 100; ++i) values.push_back(std::sin(static_cast<float>(i)));
  for (const double order : {1.0, 1.5, 3.0, 7.0, infinity}) {
    const double whole = norm(order, values);
    for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{64}, values.size()}) {
      BOOST_TEST(std::fabs(part(order, values, cut) - whole) <= 1e-13 * whole);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_part_of_order_two_is_the_sum_of_squares) {
  const std::vector<float> values{1, 2, 3, 4.5F};
  BOOST_TEST(part(2, values, 3) == 34.25);
  BOOST_TEST(part(2, values, 1) == 34.25);
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_shows_also_where_it_does_not_count) {
  const float bad[] = {1, std::numeric_limits<float>::infinity()};
  for (const double order : {1.0, 2.0, infinity}) {
    zero::NormPart made(order);
    made.add(bad, 1);
    made.add(bad, 1, false);
    BOOST_TEST(made.value() == 1);
    made.add(bad, 2, false);
    made.add(bad, 1);
    BOOST_TEST(!std::isfinite(made.value()));
  }
}

BOOST_AUTO_TEST_CASE(an_order_below_one_is_refused) {
  zero::NormPart::check_order(1);
  zero::NormPart::check_order(infinity);
  for (const double order : {0.0, 0.99, -infinity, std::nan("")}) {
    BOOST_CHECK_THROW(zero::NormPart::check_order(order), zero::ContractError);
  }
}

BOOST_AUTO_TEST_SUITE_END()
