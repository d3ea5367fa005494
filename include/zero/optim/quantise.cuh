// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Codes of 8 bits with a scale for each block, in device memory. May include base/.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <zero/base/array.hpp>
#include <zero/optim/detail/launch.cuh>
#include <zero/optim/detail/tile.cuh>
#include <zero/optim/quantise.hpp>

namespace zero {

namespace detail {
static_assert(quantised_block == 32 * tile_size, "the lanes of a warp hold a block");

/// Eight codes as they lie in memory; `at_once` says that they lie at a multiple of 8 bytes.
union CodeTile {
  uint2 words;
  std::int8_t codes[tile_size];
};
inline bool lie_at_once(const QuantisedArray& array) {
  return reinterpret_cast<std::uintptr_t>(array.codes) % alignof(uint2) == 0;
}

template <bool aligned_codes>
__global__ void __launch_bounds__(block_threads)
    quantise_kernel(Array from, QuantisedArray to, Tiling tiling) {
  // All lanes of a warp take part to the end: also those that have no elements.
  const std::uint64_t tile = thread_number(blockIdx.x, blockDim.x, threadIdx.x);
  const Lanes lanes(tiling, tile, 0, tiling.count);
  float values[tile_size];
  to_floats(load(from, lanes), from.type, values);
  std::uint32_t largest = 0;
#pragma unroll
  for (std::uint32_t k = 0; k < tile_size; ++k) {
    const std::uint32_t bits = magnitude_bits(values[k]);
    largest = bits > largest ? bits : largest;
  }
  for (int by = 16; by > 0; by /= 2) {
    const std::uint32_t other = __shfl_xor_sync(0xFFFFFFFF, largest, by);
    largest = other > largest ? other : largest;
  }
  if (lanes.mask == 0) return;
  const float scale = block_scale(largest);
  if (lanes.begin % quantised_block == 0) to.scales[lanes.begin / quantised_block] = scale;
  CodeTile made;
#pragma unroll
  for (std::uint32_t k = 0; k < tile_size; ++k) made.codes[k] = quantise_element(values[k], scale);
  if (aligned_codes && lanes.mask == 0xFF) {
    *reinterpret_cast<uint2*>(to.codes + lanes.begin) = made.words;
    return;
  }
#pragma unroll
  for (std::uint32_t k = 0; k < tile_size; ++k) {
    if (lanes.has(k)) to.codes[lanes.begin + k] = made.codes[k];
  }
}
template <bool aligned_codes>
__global__ void __launch_bounds__(block_threads)
    dequantise_kernel(QuantisedArray from, Array to, Tiling tiling) {
  const std::uint64_t tile = thread_number(blockIdx.x, blockDim.x, threadIdx.x);
  const Lanes lanes(tiling, tile, 0, tiling.count);
  if (lanes.mask == 0) return;
  CodeTile read = {};
  if (aligned_codes && lanes.mask == 0xFF) {
    read.words = *reinterpret_cast<const uint2*>(from.codes + lanes.begin);
  } else {
#pragma unroll
    for (std::uint32_t k = 0; k < tile_size; ++k) {
      if (lanes.has(k)) read.codes[k] = from.codes[lanes.begin + k];
    }
  }
  const float scale = from.scales[lanes.begin / quantised_block];
  float values[tile_size];
#pragma unroll
  for (std::uint32_t k = 0; k < tile_size; ++k) {
    values[k] = static_cast<float>(read.codes[k]) * scale;
  }
  store(from_floats(values, to.type), to, lanes);
}
}  // namespace detail

/// quantise of the host for device memory, with the same bits.
///
/// Order:   enqueued on `stream`; neither synchronises nor allocates; can be captured.
/// Pre:     as on the host.
/// Errors:  CudaError if the kernel cannot be started.
inline void quantise(cudaStream_t stream, const Array& from, const QuantisedArray& to) {
  const Array arrays[] = {from};
  const auto tiling = detail::Tiling::from_first(arrays);
  detail::launch(
      "quantise", stream, detail::blocks_for(tiling.tiles()),
      detail::lie_at_once(to) ? detail::quantise_kernel<true> : detail::quantise_kernel<false>,
      from, to, tiling);
}
/// dequantise of the host for device memory, likewise.
inline void dequantise(cudaStream_t stream, const QuantisedArray& from, const Array& to) {
  const Array arrays[] = {to};
  const auto tiling = detail::Tiling::from_first(arrays);
  detail::launch("dequantise", stream, detail::blocks_for(tiling.tiles()),
                 detail::lie_at_once(from) ? detail::dequantise_kernel<true>
                                           : detail::dequantise_kernel<false>,
                 from, to, tiling);
}

}  // namespace zero
