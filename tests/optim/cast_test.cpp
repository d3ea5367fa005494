// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>
#include <zero/base/element.hpp>
#include <zero/optim/cast.hpp>

BOOST_AUTO_TEST_SUITE(cast_test)

using Narrow = std::tuple<zero::bf16, zero::fp16>;

BOOST_AUTO_TEST_CASE_TEMPLATE(every_narrow_number_survives_the_way_to_float_and_back, T, Narrow) {
  std::vector<T> narrow, back(65536, T(0.0F));
  for (unsigned bits = 0; bits < 65536; ++bits) {
    narrow.push_back(T::from_bits(static_cast<std::uint16_t>(bits)));
  }
  std::vector<float> wide(65536);
  zero::cast(narrow.data(), wide.data(), wide.size());
  zero::cast(wide.data(), back.data(), wide.size());
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const bool nan = std::isnan(wide[bits]);
    BOOST_REQUIRE((nan ? std::isnan(zero::to_float(back[bits])) : back[bits].bits == bits));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_array_is_cast_as_its_elements_are, T, Narrow) {
  for (std::size_t n = 0; n < 100; ++n) {
    for (std::size_t begin = 0; begin < 3; ++begin) {
      std::vector<float> wide(begin + n);
      for (std::size_t i = 0; i < n; ++i) {
        wide[begin + i] = std::sin(static_cast<float>(i * n)) * 1e5F;
      }
      std::vector<T> narrow(begin + n + 1, T(1.0F));
      zero::cast(wide.data() + begin, narrow.data() + begin, n);
      for (std::size_t i = 0; i < n; ++i) {
        BOOST_REQUIRE(narrow[begin + i].bits == T(wide[begin + i]).bits);
      }
      BOOST_REQUIRE(narrow.back().bits == T(1.0F).bits);
    }
  }
}

BOOST_AUTO_TEST_CASE(halves_are_rounded_to_the_even_neighbour) {
  const float wide[] = {1 + 0x1p-8F, 1 + 0x3p-8F, 1 + 0x1p-8F + 0x1p-20F};
  zero::bf16 narrow[3];
  zero::cast(wide, narrow, 3);
  BOOST_TEST(zero::to_float(narrow[0]) == 1);
  BOOST_TEST(zero::to_float(narrow[1]) == 1 + 0x1p-6F);
  BOOST_TEST(zero::to_float(narrow[2]) == 1 + 0x1p-7F);
}

BOOST_AUTO_TEST_CASE(float_to_float_is_a_copy_of_the_bits) {
  const float wide[] = {-0.0F, std::bit_cast<float>(0x7FC12345U), 1e-45F};
  float copy[3];
  zero::cast(wide, copy, 3);
  for (int i = 0; i < 3; ++i) {
    BOOST_TEST(std::bit_cast<std::uint32_t>(copy[i]) == std::bit_cast<std::uint32_t>(wide[i]));
  }
}

static_assert(zero::Cast<zero::bf16>::element(1.5F).bits == 0x3FC0);
static_assert(zero::Cast<float>::element(zero::fp16(0.5F)) == 0.5F);

BOOST_AUTO_TEST_SUITE_END()
