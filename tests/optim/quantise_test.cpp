// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>
#include <zero/optim/pack.hpp>
#include <zero/optim/quantise.hpp>

BOOST_AUTO_TEST_SUITE(quantise_test)

struct Quantised {
  std::vector<std::int8_t> codes;
  std::vector<float> scales, back;

  explicit Quantised(std::vector<float> values)
      : codes(values.size()), scales(zero::quantised_scales(values.size())), back(values.size()) {
    const zero::QuantisedArray made{codes.data(), scales.data(), values.size()};
    zero::quantise(zero::Array(values.data(), values.size()), made);
    zero::dequantise(made, zero::Array(back.data(), back.size()));
  }
};

BOOST_AUTO_TEST_CASE(multiples_of_the_scale_come_back_exactly) {
  std::vector<float> values;
  for (int i = -127; i <= 127; ++i) values.push_back(static_cast<float>(i) * 0.25F);
  const Quantised made(values);
  BOOST_TEST(made.scales == std::vector<float>{0.25F}, boost::test_tools::per_element());
  for (int i = -127; i <= 127; ++i) BOOST_TEST(made.codes[static_cast<std::size_t>(i + 127)] == i);
  BOOST_TEST(made.back == values, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(no_element_moves_by_more_than_half_a_scale) {
  std::vector<float> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i)) * std::exp2(static_cast<float>(i / 100));
  }
  const Quantised made(values);
  BOOST_TEST(made.scales.size() == 4U);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float scale = made.scales[i / zero::quantised_block];
    BOOST_REQUIRE(std::fabs(made.back[i] - values[i]) <= scale * 0.50001F);
  }
}

BOOST_AUTO_TEST_CASE(halves_go_to_the_even_code) {
  std::vector<float> values = {127, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F};
  const std::vector<std::int8_t> expected = {127, 0, 2, 2, 0, -2};
  BOOST_TEST(Quantised(values).codes == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_element_that_is_not_finite_spoils_its_block_and_no_other) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values(600, 1.0F);
    values[300] = bad;
    const Quantised made(values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      BOOST_REQUIRE((i / 256 == 1 ? std::isnan(made.back[i]) : made.back[i] == 1));
      BOOST_REQUIRE(made.codes[i] == (i / 256 == 1 ? 0 : 127));
    }
  }
}

BOOST_AUTO_TEST_CASE(zeros_and_the_smallest_numbers_stay_in_range) {
  const Quantised zeros(std::vector<float>(256, 0.0F));
  BOOST_TEST((zeros.scales[0] == 0 && zeros.back[7] == 0));
  const float least = std::numeric_limits<float>::denorm_min();
  std::vector<float> values = {150 * least, -150 * least, 190 * least, -190 * least};
  const Quantised tiny(values);  // the scale is that least number, and 190 times that no code
  BOOST_TEST(tiny.scales[0] == least);
  BOOST_TEST(tiny.codes == (std::vector<std::int8_t>{127, -127, 127, -127}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(packed_tensors_come_back_and_leave_what_lies_between) {
  std::vector<float> a = {1, 2, 3}, b = {4}, back(3, 0.0F);
  std::vector<zero::bf16> flat(6, zero::bf16(9.0F));
  const zero::Array all(flat.data(), flat.size());
  const zero::PackedTensor tensors[] = {{zero::Array(a.data(), 3), 1},
                                        {zero::Array(b.data(), 1), 5}};
  zero::pack(tensors, all);
  const float expected[] = {9, 1, 2, 3, 9, 4};
  for (std::size_t i = 0; i < 6; ++i) BOOST_TEST(zero::to_float(flat[i]) == expected[i]);
  const zero::PackedTensor first[] = {{zero::Array(back.data(), 3), 1}};
  zero::unpack(all, first);
  BOOST_TEST(back == a, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
