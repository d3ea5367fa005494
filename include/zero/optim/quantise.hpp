// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Arrays as codes of 8 bits with a scale for each block. May include base/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <zero/base/array.hpp>
#include <zero/base/element.hpp>
#include <zero/base/host_device.hpp>
#include <zero/optim/cast.hpp>
#include <zero/optim/detail/widest.hpp>

namespace zero {

/// Elements that share a scale.
inline constexpr std::size_t quantised_block = 256;

/// How many scales `count` elements have: one for each block, of which the last may be short.
constexpr std::size_t quantised_scales(std::size_t count) {
  return (count + quantised_block - 1) / quantised_block;
}

/// A view of codes in [-127, 127], one for each element, and of the scales of their blocks. The
/// element is code * scale.
struct QuantisedArray {
  std::int8_t* codes = nullptr;  // one for each element
  float* scales = nullptr;       // [quantised_scales(count)]
  std::size_t count = 0;         // elements
};

namespace detail {
/// A magnitude as a number that orders as magnitudes do; what is not finite comes last.
ZERO_HOST_DEVICE constexpr std::uint32_t magnitude_bits(float value) {
  return bits_as<std::uint32_t>(value) & 0x7FFFFFFF;
}
/// The scale of a block whose largest magnitude this is: not a number, if an element is not finite.
ZERO_HOST_DEVICE constexpr float block_scale(std::uint32_t largest) {
  const bool finite = largest < 0x7F800000;
  return finite ? bits_as<float>(largest) / 127 : bits_as<float>(std::uint32_t{0x7FC00000});
}
/// The code nearest to value / scale, ties to even; 0 if the scale is 0 or not a number.
ZERO_HOST_DEVICE constexpr std::int8_t quantise_element(float value, float scale) {
  float wanted = scale > 0 ? value / scale : 0;
  wanted = wanted < 127 ? wanted : 127;  // a scale that is subnormal is rounded coarsely
  wanted = wanted > -127 ? wanted : -127;
  const float rounded = wanted + 0x1.8p23F;  // its lowest bits are the integer
  return static_cast<std::int8_t>(bits_as<std::int32_t>(rounded) - 0x4B400000);
}

struct QuantiseLoop {
  [[gnu::always_inline]] static void run(const float* __restrict from, std::int8_t* __restrict to,
                                         float* scale, std::size_t n) {
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t bits = magnitude_bits(from[i]);
      largest = bits > largest ? bits : largest;
    }
    const float s = block_scale(largest);
    for (std::size_t i = 0; i < n; ++i) to[i] = quantise_element(from[i], s);
    *scale = s;
  }
};
struct DequantiseLoop {
  [[gnu::always_inline]] static void run(const std::int8_t* __restrict from, float* __restrict to,
                                         float scale, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]) * scale;
  }
};
}  // namespace detail

/// Rounds each element to the nearest multiple of its block's largest magnitude / 127. A block with
/// an element that is not finite becomes one of elements that are not numbers.
///
/// Pre:     the arrays have the same count and do not overlap; `from` is float, bf16 or fp16.
inline void quantise(const Array& from, const QuantisedArray& to) {
  float room[quantised_block];
  for (std::size_t begin = 0; begin < from.count; begin += quantised_block) {
    const std::size_t n = std::min(quantised_block, from.count - begin);
    cast(from.part(begin, n), Array(room, n));
    detail::run_widest<detail::QuantiseLoop>(static_cast<const float*>(room), to.codes + begin,
                                             to.scales + begin / quantised_block, n);
  }
}
/// The way back, rounded to the type of `to`.
inline void dequantise(const QuantisedArray& from, const Array& to) {
  float room[quantised_block];
  for (std::size_t begin = 0; begin < to.count; begin += quantised_block) {
    const std::size_t n = std::min(quantised_block, to.count - begin);
    const std::int8_t* const codes = from.codes + begin;
    detail::run_widest<detail::DequantiseLoop>(codes, static_cast<float*>(room),
                                               from.scales[begin / quantised_block], n);
    cast(Array(room, n), to.part(begin, n));
  }
}

}  // namespace zero
