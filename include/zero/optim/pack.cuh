// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Tensors that lie anywhere in device memory, put together in one flat array. May include base/ and
// layout/.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <zero/base/array.hpp>
#include <zero/layout/tensor_range.hpp>
#include <zero/optim/cast.cuh>
#include <zero/optim/detail/launch.cuh>
#include <zero/optim/detail/tile.cuh>
#include <zero/optim/pack.hpp>

namespace zero {

namespace detail {
/// The same lanes of an array that begins `offset` elements later.
__device__ inline Lanes lanes_behind(Lanes lanes, std::uint64_t offset, const Array& array) {
  lanes.begin -= offset;
  const auto address = reinterpret_cast<std::uintptr_t>(array.data);
  lanes.at_once = lanes.at_once && (address + lanes.begin * size_of(array.type)) % 16 == 0;
  return lanes;
}

template <bool packs>
__global__ void __launch_bounds__(block_threads)
    pack_kernel(const PackedTensor* tensors, std::uint32_t count, Array flat, Tiling tiling) {
  const std::uint64_t tile = thread_number(blockIdx.x, blockDim.x, threadIdx.x);
  if (tile >= tiling.tiles()) return;
  const std::uint64_t first = tile == 0 ? 0 : tile * tile_size - tiling.shift;
  const std::uint64_t end = (tile + 1) * tile_size - tiling.shift;
  for (std::uint32_t t = last_range(tensors, count, first); t < count && tensors[t].offset < end;
       ++t) {
    const PackedTensor packed = tensors[t];
    const Lanes in_flat(tiling, tile, packed.offset, packed.offset + packed.tensor.count);
    if (in_flat.mask == 0) continue;
    const Lanes in_tensor = lanes_behind(in_flat, packed.offset, packed.tensor);
    const Array& from = packs ? packed.tensor : flat;
    const Array& to = packs ? flat : packed.tensor;
    const RawTile read = load(from, packs ? in_tensor : in_flat);
    const Lanes& lanes = packs ? in_flat : in_tensor;
    if (from.type == to.type) {
      store(read, to, lanes);
    } else {
      float values[tile_size];
      to_floats(read, from.type, values);
      store(from_floats(values, to.type), to, lanes);
    }
  }
}
template <bool packs>
void launch_pack(cudaStream_t stream, const PackedTensor* tensors, std::uint32_t count,
                 const Array& flat) {
  if (count == 0) return;
  const Array arrays[] = {flat};
  const Tiling tiling(arrays);
  launch(packs ? "pack" : "unpack", stream, blocks_for(tiling.tiles()), pack_kernel<packs>, tensors,
         count, flat, tiling);
}
}  // namespace detail

/// pack of the host for device memory: `tensors` [count] lie there too, in order of offset.
///
/// Order:   enqueued on `stream`; neither synchronises nor allocates; can be captured. The table is
///          read when the stream gets there.
/// Errors:  CudaError if the kernel cannot be started.
inline void pack(cudaStream_t stream, const PackedTensor* tensors, std::uint32_t count,
                 const Array& flat) {
  detail::launch_pack<true>(stream, tensors, count, flat);
}
/// unpack of the host for device memory, likewise.
inline void unpack(cudaStream_t stream, const Array& flat, const PackedTensor* tensors,
                   std::uint32_t count) {
  detail::launch_pack<false>(stream, tensors, count, flat);
}

}  // namespace zero
