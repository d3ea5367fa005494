// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Numbers of one block as codes of 8 bits and a scale. May include base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <zero/base/element.hpp>
#include <zero/optim/detail/widest.hpp>
#include <zero/optim/quantise.hpp>
#include <zero/optim/stochastic.hpp>

namespace zero {

/// The block's largest magnitude is its scale; a number is a power of two with three further bits,
/// times the scale. So codes have the same relative error, 1/16 at most when rounded to nearest,
/// over many powers of two: linear codes would make the small numbers of a block 0, and an Adam
/// that divides by their root would explode.
///
/// Signed codes reach from the scale down to 2^-15.75 of it, and then 0. Those of numbers that are
/// never negative reach down to 2^-31.75; a number below that becomes the smallest, and 0 stays 0.
///
/// Source:  Dettmers et al., 8-bit optimizers via block-wise quantization, 2022: blocks, their
///          largest magnitude, and codes that are not linear.
template <bool is_signed>
struct BlockCode {
  static constexpr std::uint32_t top = is_signed ? 127 : 255;  // the code of the scale itself
  static constexpr std::uint32_t one = 0x3F800000;             // the bits of 1
  static constexpr int step = 20;                              // bits of a float below its code

  /// The number that a code stands for.
  static constexpr float decode(std::uint8_t code, float scale) {
    const std::uint32_t magnitude = code & top;
    const std::uint32_t bits = magnitude == 0 ? 0 : one - ((top - magnitude) << step);
    const float value = detail::bits_as<float>(bits) * scale;
    return is_signed && code > top ? -value : value;
  }
  /// `below` is what is added before the bits below the code are cut off: half of them to round to
  /// nearest, or random ones. A number that decode gave keeps its code with half of them.
  static constexpr std::uint8_t encode(float value, float scale, std::uint32_t below) {
    const std::uint32_t bits = detail::bits_as<std::uint32_t>(value);
    const float share = scale > 0 ? detail::bits_as<float>(bits & 0x7FFFFFFF) / scale : 0;
    const std::uint32_t raised = detail::bits_as<std::uint32_t>(share) + below;
    const std::uint32_t down = raised < one ? (one - raised + ((1U << step) - 1)) >> step : 0;
    const std::uint32_t least = is_signed || share == 0 ? 0 : 1;
    const std::uint32_t code = down < top ? top - down : least;
    return static_cast<std::uint8_t>(code | (is_signed && bits >> 31 != 0 ? 128U : 0U));
  }
};

namespace detail {
inline constexpr std::uint32_t half_below = 1U << 19;

template <bool is_signed>
struct DecodeBlockLoop {
  [[gnu::always_inline]] static void run(const std::uint8_t* __restrict codes, float scale,
                                         float* __restrict to, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to[i] = BlockCode<is_signed>::decode(codes[i], scale);
  }
};
/// With random bits of the elements from `begin` on, or rounded to nearest.
template <bool is_signed, bool is_random>
struct EncodeBlockLoop {
  [[gnu::always_inline]] static void run(const float* __restrict from,
                                         std::uint8_t* __restrict codes, float* scale,
                                         std::size_t count, RandomBits random,
                                         std::uint32_t begin) {
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t bits = magnitude_bits(from[i]);
      largest = bits > largest ? bits : largest;
    }
    // A block with a number that is not finite becomes one of numbers that are not.
    const float s = bits_as<float>(largest < 0x7F800000 ? largest : std::uint32_t{0x7FC00000});
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t below =
          is_random ? random(begin + static_cast<std::uint32_t>(i)) >> 12 : half_below;
      codes[i] = BlockCode<is_signed>::encode(from[i], s, below);
    }
    *scale = s;
  }
};
}  // namespace detail

/// A view of one block of at most quantised_block numbers as it is kept: its scale, then its codes.
template <bool is_signed>
class CodedBlock {
 public:
  /// fp32 numbers that a block takes.
  static constexpr std::size_t numbers = 1 + quantised_block / sizeof(float);

  /// The block that is kept there.
  explicit CodedBlock(float* kept)
      : scale_(kept), codes_(reinterpret_cast<std::uint8_t*>(kept + 1)) {}

  /// Decodes the first `count` numbers.
  void read(float* to, std::size_t count) const {
    detail::run_widest<detail::DecodeBlockLoop<is_signed>>(static_cast<const std::uint8_t*>(codes_),
                                                           *scale_, to, count);
  }
  /// Rounds to nearest.
  void write(const float* from, std::size_t count) const {
    detail::run_widest<detail::EncodeBlockLoop<is_signed, false>>(from, codes_, scale_, count,
                                                                  RandomBits(), std::uint32_t{0});
  }
  /// Rounds stochastically, so that means over many steps are right; `begin` is the number of the
  /// first element in its tensor.
  void write(const float* from, std::size_t count, const RandomBits& random,
             std::size_t begin) const {
    const RandomBits high = random.with(static_cast<std::uint64_t>(begin) >> 32);
    detail::run_widest<detail::EncodeBlockLoop<is_signed, true>>(from, codes_, scale_, count, high,
                                                                 static_cast<std::uint32_t>(begin));
  }

 private:
  float* scale_;
  std::uint8_t* codes_;
};

}  // namespace zero
