// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// To which tensors a tile of a group belongs. May include base/ and layout/.
#pragma once

#include <cstdint>
#include <zero/layout/tensor_range.hpp>
#include <zero/optim/detail/tile.cuh>

namespace zero::detail {

/// Which elements an array holds: element i is element begin + i of the group that `ranges`
/// describes.
struct GroupPart {
  const TensorRange* ranges = nullptr;
  std::uint32_t count = 0;
  std::uint64_t begin = 0;
};

/// Calls f(range, lanes) for each tensor that has elements in a tile; for most tiles that is one.
template <class F>
__device__ void for_each_tensor(const Tiling& tiling, std::uint64_t tile, const GroupPart& part,
                                const F& f) {
  const std::uint64_t first = tile == 0 ? 0 : tile * tile_size - tiling.shift;  // in the array
  const std::uint64_t last = (tile + 1) * tile_size - tiling.shift;
  const std::uint64_t end = part.begin + (last < tiling.count ? last : tiling.count);
  for (std::uint32_t r = last_range(part.ranges, part.count, part.begin + first);
       r < part.count && part.ranges[r].offset < end; ++r) {
    const TensorRange range = part.ranges[r];
    const std::uint64_t range_end = range.offset + range.size;
    if (range_end <= part.begin) continue;
    const std::uint64_t from = range.offset > part.begin ? range.offset - part.begin : 0;
    const std::uint64_t to = (range_end < end ? range_end : end) - part.begin;
    const Lanes lanes(tiling, tile, from, to);
    if (lanes.mask != 0) f(range, lanes);
  }
}

}  // namespace zero::detail
