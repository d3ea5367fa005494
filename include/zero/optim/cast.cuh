// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Conversion of arrays in device memory. May include base/.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <zero/base/array.hpp>
#include <zero/optim/detail/launch.cuh>
#include <zero/optim/detail/tile.cuh>

namespace zero {

namespace detail {
/// One kernel for all types: which they are is the same for all threads, so that to ask costs
/// little beside the memory.
template <bool adds>
__device__ void cast_tile(const Array& from, const Array& to, float scale, const Lanes& lanes) {
  const RawTile read = load(from, lanes);
  float values[tile_size];
  to_floats(read, from.type, values);
  if constexpr (adds) {
    float sums[tile_size];
    to_floats(load(to, lanes), to.type, sums);
#pragma unroll
    for (std::uint32_t k = 0; k < tile_size; ++k) values[k] = sums[k] + values[k] * scale;
  } else if (scale != 1) {  // a product would change the bits of what is not a number
#pragma unroll
    for (std::uint32_t k = 0; k < tile_size; ++k) values[k] *= scale;
  }
  store(from_floats(values, to.type), to, lanes);
}
template <bool adds>
__global__ void __launch_bounds__(block_threads)
    cast_kernel(Array from, Array to, float scale, Tiling tiling) {
  const std::uint64_t tile = thread_number(blockIdx.x, blockDim.x, threadIdx.x);
  if (tile >= tiling.tiles()) return;
  cast_tile<adds>(from, to, scale, Lanes(tiling, tile, 0, tiling.count));
}
}  // namespace detail

/// cast_scaled of the host for device memory: multiplies elements by `scale` and converts them;
/// with `adds` they are added to what is there. In fp32, rounded once; with a scale of 1 and
/// without `adds` it is cast, bit for bit.
///
/// Order:   enqueued on `stream`; neither synchronises nor allocates; can be captured.
/// Pre:     the arrays have the same count and are float, bf16 or fp16; they are the same or do
///          not overlap.
/// Errors:  CudaError if the kernel cannot be started.
inline void cast_scaled(cudaStream_t stream, const Array& from, const Array& to, float scale,
                        bool adds) {
  const Array both[] = {from, to};
  const detail::Tiling tiling(both);
  detail::launch("cast_scaled", stream, detail::blocks_for(tiling.tiles()),
                 adds ? detail::cast_kernel<true> : detail::cast_kernel<false>, from, to, scale,
                 tiling);
}
/// Converts each element.
inline void cast(cudaStream_t stream, const Array& from, const Array& to) {
  cast_scaled(stream, from, to, 1, false);
}

}  // namespace zero
