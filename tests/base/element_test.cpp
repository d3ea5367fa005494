// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <algorithm>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <vector>
#include <zero/base/element.hpp>

BOOST_AUTO_TEST_SUITE(element_test)

using zero::bf16;
using zero::DataType;
using zero::fp16;

static_assert(std::is_trivial_v<bf16> && std::is_trivial_v<fp16>);
static_assert(sizeof(bf16) == 2 && alignof(bf16) == 2 && sizeof(fp16) == 2 && alignof(fp16) == 2);
static_assert(!std::convertible_to<float, bf16> && !std::convertible_to<bf16, float>);
static_assert(!std::convertible_to<float, fp16> && !std::convertible_to<fp16, float>);
static_assert(zero::Element<float> && zero::Element<std::uint64_t> && !zero::Element<int>);
static_assert(zero::RealElement<fp16> && !zero::RealElement<std::uint64_t>);
static_assert(bf16(1.0F).bits == 0x3F80 && bf16(-2.5F).bits == 0xC020);
static_assert(fp16(1.0F).bits == 0x3C00 && fp16(65504.0F).bits == 0x7BFF);
static_assert(fp16(65519.996F).bits == 0x7BFF && fp16(65520.0F).bits == 0x7C00);
static_assert(fp16(0x1p-24F).bits == 1 && fp16(0x1p-25F).bits == 0 && fp16(0x1.8p-24F).bits == 2);
static_assert(bf16(3.4e38F).bits == 0x7F80 && bf16(0x1p-133F).bits == 1);
static_assert(static_cast<float>(fp16::from_bits(0x0001)) == 0x1p-24F);
static_assert(zero::to_float(zero::from_float<bf16>(0.5F)) == 0.5F);
static_assert(zero::from_float<float>(0.1F) == 0.1F && zero::to_float(0.1F) == 0.1F);
static_assert(bf16(0.0F) == bf16(-0.0F) && fp16(0.0F) == fp16(-0.0F) && bf16(1.0F) != bf16(2.0F));
static_assert(fp16::from_bits(0x7E00) != fp16::from_bits(0x7E00));
static_assert(zero::data_type<bf16> == DataType::bf16 && zero::data_type<double> == DataType::fp64);
static_assert(zero::size_of(zero::data_type<float>) == sizeof(float));
static_assert(zero::size_of(DataType::u64) == 8 && zero::size_of(DataType::fp16) == 2);

/// A small binary floating point format, by its definition in IEEE 754 and with arithmetic of
/// doubles only: nothing here looks at the bits of a float.
struct Format {
  int mantissa_bits;
  int min_exponent;  // of normal numbers

  double value(unsigned bits) const {
    const unsigned mantissa = bits & ((1U << mantissa_bits) - 1);
    const int exponent = static_cast<int>((bits & 0x7FFF) >> mantissa_bits);
    const int top = (0x7FFF >> mantissa_bits);
    double magnitude = 0;
    if (exponent == top) {
      magnitude = mantissa == 0 ? INFINITY : NAN;
    } else if (exponent == 0) {
      magnitude = std::ldexp(mantissa, min_exponent - mantissa_bits);
    } else {
      magnitude = std::ldexp(mantissa + std::ldexp(1.0, mantissa_bits),
                             exponent - 1 + min_exponent - mantissa_bits);
    }
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }

  /// The bits of the format's number nearest to x, ties to even. Not for NaN.
  unsigned nearest(double x) const {
    const unsigned sign = std::signbit(x) ? 0x8000 : 0;
    const double magnitude = std::fabs(x);
    const unsigned infinity = 0x7FFFU >> mantissa_bits << mantissa_bits;
    if (std::isinf(magnitude)) return sign | infinity;
    if (magnitude == 0) return sign;
    const int exponent = std::max(std::ilogb(magnitude), min_exponent);
    // In units of the last place, a number's bits count up from those of the power of two below.
    const double units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
    const auto first = static_cast<unsigned>(exponent - min_exponent) << mantissa_bits;
    return sign | std::min(first + static_cast<unsigned>(units), infinity);
  }
};

template <class T>
constexpr Format format = std::same_as<T, bf16> ? Format{7, -126} : Format{10, -14};

template <class T>
void narrow_all(const std::vector<float>& from, std::vector<T>& to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = T(from[i]);
}

template <class T>
void widen_all(const std::vector<T>& from, std::vector<float>& to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = static_cast<float>(from[i]);
}

template <class T>
std::vector<T> all_patterns() {
  std::vector<T> all(0x10000);
  for (unsigned i = 0; i < all.size(); ++i) all[i] = T::from_bits(static_cast<std::uint16_t>(i));
  return all;
}

/// Every number of the format, the middle to the next one, and the floats around both; then every
/// upper half of a float with several lower halves. NaN included.
template <class T>
std::vector<float> dense_set() {
  std::vector<float> set;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const double low = format<T>.value(bits);
    const double high = format<T>.value(bits + 1 < 0x10000 ? bits + 1 : bits);
    // The middle between the largest number and the next power of two rounds to infinity.
    const double next =
        std::isinf(high) && std::isfinite(low) ? 2 * low - format<T>.value(bits - 1) : high;
    for (const double x : {low, (low + next) / 2}) {
      const auto center = static_cast<float>(x);
      set.push_back(center);
      set.push_back(std::nextafter(center, INFINITY));
      set.push_back(std::nextafter(center, -INFINITY));
    }
    for (const std::uint32_t half : {0U, 1U, 0xFFFU, 0x1000U, 0x1001U, 0x2000U, 0x3000U, 0x7FFFU,
                                     0x8000U, 0x8001U, 0xA5A5U, 0xF000U, 0xFFFFU}) {
      set.push_back(std::bit_cast<float>((bits << 16) | half));
    }
  }
  return set;
}

using SmallTypes = std::tuple<bf16, fp16>;

BOOST_AUTO_TEST_CASE_TEMPLATE(every_pattern_has_its_value_and_comes_back, T, SmallTypes) {
  const std::vector<T> all = all_patterns<T>();
  std::vector<float> floats(all.size());
  std::vector<T> back(all.size());
  widen_all(all, floats);
  narrow_all(floats, back);
  int wrong = 0;
  int nans = 0;
  for (unsigned bits = 0; bits < all.size(); ++bits) {
    const double expected = format<T>.value(bits);
    const double value = floats[bits];
    if (std::isnan(expected)) {
      ++nans;
      const unsigned quiet = bits | (1U << (format<T>.mantissa_bits - 1));
      wrong += std::isnan(value) && back[bits].bits == quiet ? 0 : 1;
    } else {
      wrong += value == expected && std::signbit(value) == std::signbit(expected) &&
                       back[bits].bits == bits
                   ? 0
                   : 1;
    }
  }
  BOOST_TEST(wrong == 0);
  BOOST_TEST(nans == 2 * ((1 << format<T>.mantissa_bits) - 1));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(floats_round_to_nearest_with_ties_to_even, T, SmallTypes) {
  const std::vector<float> floats = dense_set<T>();
  std::vector<T> narrow(floats.size());
  narrow_all(floats, narrow);
  std::size_t wrong = 0;
  std::size_t nans = 0;
  float first = 0;
  for (std::size_t i = 0; i < floats.size(); ++i) {
    bool right = false;
    if (std::isnan(floats[i])) {
      ++nans;
      const unsigned quiet = 1U << (format<T>.mantissa_bits - 1);
      right = std::isnan(format<T>.value(narrow[i].bits)) && (narrow[i].bits & quiet) != 0 &&
              (narrow[i].bits >> 15 != 0) == std::signbit(floats[i]);
    } else {
      right = narrow[i].bits == format<T>.nearest(floats[i]);
    }
    if (!right && wrong++ == 0) first = floats[i];
  }
  BOOST_TEST(wrong == 0U, wrong << " of " << floats.size() << " differ, first " << first);
  BOOST_TEST(nans > 1000U);
  BOOST_TEST(floats.size() == 0x10000U * 19);
}

BOOST_AUTO_TEST_CASE(the_largest_numbers_and_infinity_are_kept_apart) {
  const float inf = std::numeric_limits<float>::infinity();
  BOOST_TEST(fp16(inf).bits == 0x7C00);
  BOOST_TEST(fp16(-inf).bits == 0xFC00);
  BOOST_TEST(fp16(std::numeric_limits<float>::max()).bits == 0x7C00);
  BOOST_TEST(bf16(inf).bits == 0x7F80);
  BOOST_TEST(bf16(std::numeric_limits<float>::max()).bits == 0x7F80);
  BOOST_TEST(bf16(-std::numeric_limits<float>::max()).bits == 0xFF80);
}

BOOST_AUTO_TEST_CASE(a_signalling_nan_whose_payload_is_low_does_not_become_infinity) {
  const auto low = std::bit_cast<float>(0x7F800001U);
  BOOST_TEST(bf16(low).bits == 0x7FC0);
  BOOST_TEST(fp16(low).bits == 0x7E00);
}

BOOST_AUTO_TEST_CASE(the_data_types_have_different_names) {
  std::set<std::string> names;
  for (const DataType type :
       {DataType::fp32, DataType::fp64, DataType::bf16, DataType::fp16, DataType::u64}) {
    names.insert(zero::name_of(type));
  }
  BOOST_TEST(names.size() == 5U);
  BOOST_TEST(names.count("bf16") == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
