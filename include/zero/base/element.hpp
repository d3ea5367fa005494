// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The types of tensor elements: bf16, fp16, their conversions, DataType. Includes
// base/host_device.hpp.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <zero/base/host_device.hpp>

namespace zero {

/// The upper half of a float: 8 bits of exponent, 7 of mantissa.
///
/// From float: rounded to nearest, ties to even; beyond the range becomes infinity; a NaN stays a
/// NaN and becomes quiet. To float: exact. `==` compares values (0 == -0, NaN != NaN); compare
/// `bits` for bitwise equality. Default construction leaves it uninitialised, as for float.
struct bf16 {
  std::uint16_t bits;  // sign, exponent and fraction, as IEEE 754 orders them

  bf16() = default;
  /// Rounds to nearest, ties to even.
  ZERO_HOST_DEVICE explicit constexpr bf16(float value)
      : bits(narrow(detail::bits_as<std::uint32_t>(value))) {}
  /// Exact: every bf16 is a float.
  ZERO_HOST_DEVICE explicit constexpr operator float() const {
    return detail::bits_as<float>(static_cast<std::uint32_t>(bits) << 16);
  }

  /// The number with these bits.
  ZERO_HOST_DEVICE static constexpr bf16 from_bits(std::uint16_t bits) {
    bf16 result(0.0F);
    result.bits = bits;
    return result;
  }
  ZERO_HOST_DEVICE friend constexpr bool operator==(bf16 a, bf16 b) {
    return static_cast<float>(a) == static_cast<float>(b);
  }

 private:
  ZERO_HOST_DEVICE static constexpr std::uint16_t narrow(std::uint32_t x) {
    // All ones for a NaN. A signed comparison and masks: what the oldest vector units can do.
    const std::uint32_t nan =
        -static_cast<std::uint32_t>(static_cast<std::int32_t>(x & 0x7FFFFFFF) > 0x7F800000);
    const std::uint32_t half = 0x7FFF + ((x >> 16) & 1);
    return static_cast<std::uint16_t>(((x + (half & ~nan)) | (nan & 0x400000)) >> 16);
  }
};

/// IEEE 754 binary16: 5 bits of exponent, 10 of mantissa. Converts as bf16 does; subnormal numbers
/// are rounded correctly and kept. The two cases of a conversion are chosen by a mask, since a
/// compiler makes a branch, and no vectors, of a choice that involves an addition of floats.
struct fp16 {
  std::uint16_t bits;  // sign, exponent and fraction, as IEEE 754 orders them

  fp16() = default;
  /// Rounds to nearest, ties to even.
  ZERO_HOST_DEVICE explicit constexpr fp16(float value)
      : bits(narrow(detail::bits_as<std::uint32_t>(value))) {}
  /// Exact: every fp16 is a float.
  ZERO_HOST_DEVICE explicit constexpr operator float() const {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
    const std::int32_t x = (bits & 0x7FFF) << 13;
    // The exponent is moved to its new bias; infinity and NaN move twice as far, and a subnormal
    // number gets the implicit one that it lacks, which is then subtracted again.
    const std::int32_t subnormal = detail::bits_as<std::int32_t>(
        detail::bits_as<float>(x + smallest_normal) - detail::bits_as<float>(smallest_normal));
    const std::int32_t normal = x + rebias + (x < 0x7C00 << 13 ? 0 : rebias);
    const std::int32_t is_subnormal = -static_cast<std::int32_t>(x < 0x0400 << 13);
    const std::int32_t magnitude = (subnormal & is_subnormal) | (normal & ~is_subnormal);
    return detail::bits_as<float>(static_cast<std::uint32_t>(magnitude) | sign);
  }

  /// The number with these bits.
  ZERO_HOST_DEVICE static constexpr fp16 from_bits(std::uint16_t bits) {
    fp16 result(0.0F);
    result.bits = bits;
    return result;
  }
  ZERO_HOST_DEVICE friend constexpr bool operator==(fp16 a, fp16 b) {
    return static_cast<float>(a) == static_cast<float>(b);
  }

 private:
  static constexpr std::int32_t rebias = (127 - 15) << 23;
  static constexpr std::int32_t smallest_normal = (127 - 14) << 23;  // 2^-14 as a float

  ZERO_HOST_DEVICE static constexpr std::uint16_t narrow(std::uint32_t value) {
    const std::uint32_t sign = (value >> 16) & 0x8000;
    const std::int32_t x = static_cast<std::int32_t>(value & 0x7FFFFFFF);
    // 0.5 has the unit in the last place that subnormal numbers have: adding it rounds to that.
    const std::int32_t subnormal =
        detail::bits_as<std::int32_t>(detail::bits_as<float>(x) + 0.5F) - 0x3F000000;
    const std::int32_t rounded = (x - rebias + 0xFFF + ((x >> 13) & 1)) >> 13;
    const std::int32_t finite = rounded < 0x7C00 ? rounded : 0x7C00;
    const std::int32_t quiet = 0x7E00 | ((x >> 13) & 0x3FF);
    const std::int32_t normal = x > 0x7F800000 ? quiet : finite;
    const std::int32_t is_subnormal = -static_cast<std::int32_t>(x < smallest_normal);
    const std::int32_t magnitude = (subnormal & is_subnormal) | (normal & ~is_subnormal);
    return static_cast<std::uint16_t>(static_cast<std::uint32_t>(magnitude) | sign);
  }
};

static_assert(sizeof(bf16) == 2 && sizeof(fp16) == 2);

/// A type that tensors and collectives can hold.
template <class T>
concept Element = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, bf16> ||
    std::same_as<T, fp16> || std::same_as<T, std::uint64_t>;

/// An Element that is a number with a fraction.
template <class T>
concept RealElement = Element<T> && !std::same_as<T, std::uint64_t>;

/// The Element types as a value, for headers of files and checks across ranks.
enum class DataType : std::uint8_t { fp32, fp64, bf16, fp16, u64 };

/// The DataType of an element type.
template <Element T>
inline constexpr DataType data_type = std::same_as<T, float>    ? DataType::fp32
                                      : std::same_as<T, double> ? DataType::fp64
                                      : std::same_as<T, bf16>   ? DataType::bf16
                                      : std::same_as<T, fp16>   ? DataType::fp16
                                                                : DataType::u64;

/// Bytes of one element.
ZERO_HOST_DEVICE constexpr std::size_t size_of(DataType type) {
  switch (type) {
    case DataType::fp32: return 4;
    case DataType::bf16:
    case DataType::fp16: return 2;
    case DataType::fp64:
    case DataType::u64: return 8;
  }
  return 0;
}

/// The name of a type, such as "bf16".
constexpr const char* name_of(DataType type) {
  switch (type) {
    case DataType::fp32: return "fp32";
    case DataType::fp64: return "fp64";
    case DataType::bf16: return "bf16";
    case DataType::fp16: return "fp16";
    case DataType::u64: return "u64";
  }
  return "unknown";
}

/// The element as a float: exact.
ZERO_HOST_DEVICE constexpr float to_float(float value) { return value; }
/// The same as a conversion, for code that is written once for all types.
ZERO_HOST_DEVICE constexpr float to_float(bf16 value) { return static_cast<float>(value); }
/// The same as a conversion, for code that is written once for all types.
ZERO_HOST_DEVICE constexpr float to_float(fp16 value) { return static_cast<float>(value); }

/// The float as an element, rounded to nearest, ties to even.
template <Element T>
requires std::same_as<T, float> || std::same_as<T, bf16> || std::same_as<T, fp16>
    ZERO_HOST_DEVICE constexpr T from_float(float value) {
  return T(value);
}

}  // namespace zero
