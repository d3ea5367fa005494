// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Tiles: eight elements of an array, which a thread reads and writes at once. Includes base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <zero/base/array.hpp>
#include <zero/base/element.hpp>
#include <zero/base/host_device.hpp>

namespace zero::detail {

/// Elements of a tile: 16 bytes of the narrow types, twice that of floats.
inline constexpr std::uint32_t tile_size = 8;

/// How arrays of one count are cut into tiles: tile t is the elements [8 t - shift, 8 t - shift +
/// 8), of which the first tile and the last may lack some.
struct Tiling {
  std::uint64_t count = 0;
  std::uint32_t shift = 0;
  bool aligned = false;  // whether whole tiles lie at multiples of 16 bytes in all arrays

  /// The smallest shift that aligns all arrays that are there; if none does, threads go element by
  /// element.
  template <std::size_t n>
  explicit Tiling(const Array (&arrays)[n]) : count(arrays[0].count) {
    for (std::uint32_t wanted = 0; wanted < tile_size && !aligned; ++wanted) {
      aligned = true;
      for (const Array& array : arrays) {
        const auto address = reinterpret_cast<std::uintptr_t>(array.data);
        aligned = aligned &&
                  (array.data == nullptr || (address - wanted * size_of(array.type)) % 16 == 0);
      }
      if (aligned) shift = wanted;
    }
  }
  /// The same with whole tiles from the first element on, whatever that means for the alignment.
  template <std::size_t n>
  static Tiling from_first(const Array (&arrays)[n]) {
    Tiling made(arrays);
    made.aligned = made.aligned && made.shift == 0;
    made.shift = 0;
    return made;
  }
  ZERO_HOST_DEVICE constexpr std::uint64_t tiles() const {
    return count == 0 ? 0 : (count + shift + tile_size - 1) / tile_size;
  }
};

/// Some elements of a tile of several arrays: bit k of `mask` stands for element begin + k. The
/// begin of the first tile may lie before the array (and is then a large number).
struct Lanes {
  std::uint64_t begin = 0;
  std::uint32_t mask = 0;
  bool at_once = false;  // all of them, and aligned

  /// The lanes of a tile that lie in [first, last).
  ZERO_HOST_DEVICE constexpr Lanes(const Tiling& tiling, std::uint64_t tile, std::uint64_t first,
                                   std::uint64_t last)
      : begin(tile * tile_size - tiling.shift) {
    for (std::uint32_t k = 0; k < tile_size; ++k) {
      mask |= (begin + k >= first && begin + k < last ? 1U : 0U) << k;
    }
    at_once = tiling.aligned && mask == 0xFF;
  }
  ZERO_HOST_DEVICE constexpr bool has(std::uint32_t lane) const { return (mask >> lane & 1) != 0; }
};

/// The elements of a tile as they lie in memory: floats, or pairs of narrow elements.
struct RawTile {
  std::uint32_t words[tile_size];
};

/// Reads the lanes; zeros for the others.
__device__ inline RawTile load(const Array& from, const Lanes& lanes) {
  RawTile tile = {};
  std::byte* const at = from.data + lanes.begin * size_of(from.type);
  const bool wide = from.type == DataType::fp32;
  if (lanes.at_once) {
    const uint4 low = reinterpret_cast<const uint4*>(at)[0];
    const uint4 high = wide ? reinterpret_cast<const uint4*>(at)[1] : uint4{};
    return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
  }
#pragma unroll
  for (std::uint32_t k = 0; k < tile_size; ++k) {
    if (!lanes.has(k)) continue;
    if (wide) {
      tile.words[k] = reinterpret_cast<const std::uint32_t*>(at)[k];
    } else {
      tile.words[k / 2] |= std::uint32_t{reinterpret_cast<const std::uint16_t*>(at)[k]}
                           << k % 2 * 16;
    }
  }
  return tile;
}

/// Writes the lanes.
__device__ inline void store(const RawTile& tile, const Array& to, const Lanes& lanes) {
  std::byte* const at = to.data + lanes.begin * size_of(to.type);
  const bool wide = to.type == DataType::fp32;
  const std::uint32_t* const w = tile.words;
  if (lanes.at_once) {
    reinterpret_cast<uint4*>(at)[0] = {w[0], w[1], w[2], w[3]};
    if (wide) reinterpret_cast<uint4*>(at)[1] = {w[4], w[5], w[6], w[7]};
    return;
  }
#pragma unroll
  for (std::uint32_t k = 0; k < tile_size; ++k) {
    if (!lanes.has(k)) continue;
    if (wide) {
      reinterpret_cast<std::uint32_t*>(at)[k] = w[k];
    } else {
      reinterpret_cast<std::uint16_t*>(at)[k] = static_cast<std::uint16_t>(w[k / 2] >> k % 2 * 16);
    }
  }
}

/// Element k of a tile of narrow elements.
__device__ inline std::uint16_t half_word(const RawTile& tile, std::uint32_t k) {
  return static_cast<std::uint16_t>(tile.words[k / 2] >> k % 2 * 16);
}

/// The elements of a tile as floats: exact.
__device__ inline void to_floats(const RawTile& tile, DataType type, float (&to)[tile_size]) {
#pragma unroll
  for (std::uint32_t k = 0; k < tile_size; ++k) {
    if (type == DataType::fp32) {
      to[k] = bits_as<float>(tile.words[k]);
    } else if (type == DataType::bf16) {
      to[k] = to_float(bf16::from_bits(half_word(tile, k)));
    } else {
      to[k] = to_float(fp16::from_bits(half_word(tile, k)));
    }
  }
}

/// Floats as a tile of a type, each rounded to nearest, ties to even.
__device__ inline RawTile from_floats(const float (&from)[tile_size], DataType type) {
  RawTile tile = {};
#pragma unroll
  for (std::uint32_t k = 0; k < tile_size; ++k) {
    if (type == DataType::fp32) {
      tile.words[k] = bits_as<std::uint32_t>(from[k]);
    } else {
      const std::uint16_t bits = type == DataType::bf16 ? bf16(from[k]).bits : fp16(from[k]).bits;
      tile.words[k / 2] |= std::uint32_t{bits} << k % 2 * 16;
    }
  }
  return tile;
}

}  // namespace zero::detail
