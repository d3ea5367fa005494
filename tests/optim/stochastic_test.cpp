// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <array>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>
#include <zero/optim/stochastic.hpp>

BOOST_AUTO_TEST_SUITE(stochastic_test)

using zero::bf16;
using zero::RandomBits;

std::vector<bf16> rounded(float value, std::size_t n, const RandomBits& bits,
                          std::size_t begin = 0) {
  const std::vector<float> from(n, value);
  std::vector<bf16> to(n);
  zero::cast_stochastically(from.data(), to.data(), n, bits, begin);
  return to;
}
double mean(const std::vector<bf16>& values) {
  double sum = 0;
  for (const bf16 x : values) sum += static_cast<float>(x);
  return sum / static_cast<double>(values.size());
}

// B41 (b)
BOOST_AUTO_TEST_CASE(what_lies_midway_is_rounded_up_half_the_time_and_differently_everywhere) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto values = rounded(1 + 0x1p-8F, 4096, RandomBits{}.with(seed));
    std::size_t up = 0;
    std::set<std::vector<bool>> patterns;
    for (std::size_t block = 0; block < 16; ++block) {
      std::vector<bool> pattern;
      for (std::size_t i = 0; i < 256; ++i) {
        const float x = static_cast<float>(values[block * 256 + i]);
        BOOST_REQUIRE((x == 1 || x == 1 + 0x1p-7F));
        pattern.push_back(x != 1);
        up += x != 1;
      }
      patterns.insert(pattern);
    }
    BOOST_TEST(std::fabs(static_cast<double>(up) / 4096 - 0.5) < 0.04);
    BOOST_TEST(patterns.size() == 16U);
  }
}

BOOST_AUTO_TEST_CASE(the_mean_is_the_number) {
  constexpr std::size_t n = 1 << 16;
  for (const float part : {0.125F, 0.25F, 0.9F}) {
    const float value = -(3 + part * 0x1p-6F);
    const double off = (mean(rounded(value, n, RandomBits{}.with(7))) - value) * 0x1p6;
    BOOST_TEST(std::fabs(off) < 5 * std::sqrt(part * (1 - part) / n));
  }
}

BOOST_AUTO_TEST_CASE(numbers_that_fit_are_exact_and_a_nan_stays_one) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const bf16 x = bf16::from_bits(static_cast<std::uint16_t>(bits));
    for (const std::uint32_t random : {0U, 0x80000000U, 0xFFFFFFFFU}) {
      const bf16 y = zero::round_stochastically(static_cast<float>(x), random);
      BOOST_REQUIRE((std::isnan(static_cast<float>(x)) ? std::isnan(static_cast<float>(y))
                                                       : y.bits == x.bits));
    }
  }
  const float nan = std::bit_cast<float>(0x7F800001U);  // its payload lies in the lower half
  BOOST_TEST(std::isnan(static_cast<float>(zero::round_stochastically(nan, 0))));
  BOOST_TEST(std::isnan(static_cast<float>(zero::round_stochastically(nan, 0xFFFFFFFF))));
}

BOOST_AUTO_TEST_CASE(an_array_cut_anywhere_gives_the_same_bits_also_beyond_2_to_the_32) {
  const RandomBits bits = RandomBits{}.with(3).with(5);
  constexpr std::size_t n = 200;
  for (const std::size_t begin :
       {std::size_t{0}, (std::size_t{1} << 32) - 77, (std::size_t{5} << 40) + 3}) {
    const auto whole = rounded(1 + 0x1p-8F, n, bits, begin);
    for (std::size_t cut = 0; cut <= n; ++cut) {
      auto parts = rounded(1 + 0x1p-8F, cut, bits, begin);
      const auto rest = rounded(1 + 0x1p-8F, n - cut, bits, begin + cut);
      parts.insert(parts.end(), rest.begin(), rest.end());
      for (std::size_t i = 0; i < n; ++i) BOOST_REQUIRE(parts[i].bits == whole[i].bits);
    }
  }
  const auto low = rounded(1 + 0x1p-8F, n, bits, 0);
  const auto high = rounded(1 + 0x1p-8F, n, bits, std::size_t{1} << 32);
  BOOST_TEST((low != high));
}

BOOST_AUTO_TEST_CASE(every_key_counts_and_their_order_does) {
  std::set<std::array<std::uint32_t, 4>> seen;
  const auto add = [&](const RandomBits& bits) {
    seen.insert({bits(0), bits(1), bits(2), bits(1U << 31)});
  };
  for (std::uint64_t a = 0; a < 100; ++a) {
    for (std::uint64_t b = 0; b < 100; ++b) add(RandomBits{}.with(a).with(b));
    add(RandomBits{}.with(a));
  }
  BOOST_TEST(seen.size() == 10100U);
}

static_assert(zero::round_stochastically(1 + 0x1p-8F, 0x7FFFFFFF).bits == 0x3F80);
static_assert(zero::round_stochastically(1 + 0x1p-8F, 0x80000000).bits == 0x3F81);

BOOST_AUTO_TEST_SUITE_END()
