// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>
#include <zero/optim/square_norm.hpp>

BOOST_AUTO_TEST_SUITE(square_norm_test)

using zero::square_norm;

BOOST_AUTO_TEST_CASE(small_integers_are_summed_exactly_for_every_length) {
  std::vector<float> values;
  double expected = 0;
  for (int i = 0; i < 300; ++i) {
    BOOST_REQUIRE(square_norm(values.data(), values.size()) == expected);
    values.push_back(static_cast<float>(i % 7 - 3));
    expected += (i % 7 - 3) * (i % 7 - 3);
  }
}

BOOST_AUTO_TEST_CASE(an_empty_array_has_norm_zero) { BOOST_TEST(square_norm(nullptr, 0) == 0); }

BOOST_AUTO_TEST_CASE(squares_beyond_half_precision_are_counted) {
  const std::vector<float> values(65536, 16);
  BOOST_TEST(std::sqrt(square_norm(values.data(), values.size())) == 4096);
}

BOOST_AUTO_TEST_CASE(squares_beyond_the_range_of_float_are_finite_and_not_lost) {
  const float large = std::numeric_limits<float>::max();
  const float tiny = std::numeric_limits<float>::denorm_min();
  BOOST_TEST(std::sqrt(square_norm(&large, 1)) == large);
  BOOST_TEST(std::sqrt(square_norm(&tiny, 1)) == tiny);
}

BOOST_AUTO_TEST_CASE(the_bits_depend_on_the_length_only_and_not_on_the_place) {
  std::vector<float> memory(1100);
  for (std::size_t n : std::vector<std::size_t>{1, 15, 16, 17, 31, 33, 1000}) {
    std::uint64_t first = 0;
    for (std::size_t begin = 0; begin < 20; ++begin) {
      for (std::size_t i = 0; i < n; ++i) {
        memory[begin + i] = std::sin(static_cast<float>(i)) * 1e3F;
      }
      const auto bits = std::bit_cast<std::uint64_t>(square_norm(&memory[begin], n));
      if (begin == 0) first = bits;
      BOOST_REQUIRE(bits == first);
    }
  }
}

BOOST_AUTO_TEST_CASE(one_element_that_is_not_finite_is_seen_wherever_it_lies) {
  std::vector<float> values(50, 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::numeric_limits<float>::infinity();
    BOOST_TEST(!std::isfinite(square_norm(values.data(), values.size())));
    values[i] = -values[i];
    BOOST_TEST(!std::isfinite(square_norm(values.data(), values.size())));
    values[i] = std::numeric_limits<float>::quiet_NaN();
    BOOST_TEST(!std::isfinite(square_norm(values.data(), values.size())));
    values[i] = 1;
  }
}

BOOST_AUTO_TEST_SUITE_END()
