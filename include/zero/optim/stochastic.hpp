// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Stochastic rounding from float to bf16, with random bits that depend on the element alone. May
// include base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <zero/base/element.hpp>
#include <zero/base/host_device.hpp>
#include <zero/optim/detail/widest.hpp>

namespace zero {

/// Random bits for the elements of one array: a pure function of the key and of an element's
/// number, so that neither ranks nor shards nor the order of work change them.
///
/// Source:  the mixing of 32 bits is lowbias32 of C. Wellons, hash-prospector, 2018.
class RandomBits {
 public:
  /// Key by key, as in Hasher: seed, name, counter, ...
  ZERO_HOST_DEVICE constexpr RandomBits with(std::uint64_t key) const {
    // Source: Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014.
    std::uint64_t z = key_ + key * 0x9E3779B97F4A7C15U + 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return of_key(z ^ (z >> 31));
  }
  /// 32 bits for each number below 2^32; with(number >> 32) serves the others.
  ZERO_HOST_DEVICE constexpr std::uint32_t operator()(std::uint32_t number) const {
    std::uint32_t x = number ^ static_cast<std::uint32_t>(key_);
    x = (x ^ (x >> 16)) * 0x7FEB352DU + static_cast<std::uint32_t>(key_ >> 32);
    x = (x ^ (x >> 15)) * 0x846CA68BU;
    return x ^ (x >> 16);
  }

  /// What a kernel's table holds of it.
  ZERO_HOST_DEVICE constexpr std::uint64_t key() const { return key_; }
  /// The bits that belong to a key.
  ZERO_HOST_DEVICE static constexpr RandomBits of_key(std::uint64_t key) {
    RandomBits made;
    made.key_ = key;
    return made;
  }

 private:
  std::uint64_t key_ = 0;
};

/// One of the two bf16 next to a float: the nearer, the likelier, so that the mean is the float.
/// Exact for a bf16; a NaN stays one and becomes quiet.
ZERO_HOST_DEVICE constexpr bf16 round_stochastically(float value, std::uint32_t random) {
  const auto x = detail::bits_as<std::uint32_t>(value);
  const std::uint32_t nan =
      -static_cast<std::uint32_t>(static_cast<std::int32_t>(x & 0x7FFFFFFF) > 0x7F800000);
  const std::uint32_t rounded = (x + (random >> 16 & ~nan)) | (nan & 0x400000);
  return bf16::from_bits(static_cast<std::uint16_t>(rounded >> 16));
}

namespace detail {
struct StochasticLoop {
  [[gnu::always_inline]] static void run(const float* __restrict from, bf16* __restrict to,
                                         std::size_t n, RandomBits bits, std::uint32_t begin) {
    for (std::size_t i = 0; i < n; ++i) {
      to[i] = round_stochastically(from[i], bits(begin + static_cast<std::uint32_t>(i)));
    }
  }
};
}  // namespace detail

/// Rounds n floats, the first of which is element `begin` of its tensor.
///
/// Pre:     the arrays do not overlap.
inline void cast_stochastically(const float* from, bf16* to, std::size_t n, const RandomBits& bits,
                                std::size_t begin) {
  while (n > 0) {
    const RandomBits high = bits.with(static_cast<std::uint64_t>(begin) >> 32);
    const auto low = static_cast<std::uint32_t>(begin);
    const std::size_t room = (std::size_t{1} << 32) - low;
    const std::size_t count = n < room ? n : room;
    detail::run_widest<detail::StochasticLoop>(from, to, count, high, low);
    from += count;
    to += count;
    begin += count;
    n -= count;
  }
}

}  // namespace zero
