// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// TensorRange: where a tensor lies in its group, as kernels read it. Includes base/host_device.hpp.
#pragma once

#include <cstdint>
#include <zero/base/host_device.hpp>

namespace zero {

/// Where one tensor lies in the padded whole of its group. A table of them, in order of offset and
/// none overlapping another, lies in device memory; what is in no range is padding.
///
/// Units:   elements.
struct TensorRange {
  std::uint64_t offset = 0, size = 0;  // where the part begins, and how many elements it has
  std::uint32_t tensor = 0;            // its number among all tensors of the model
  std::uint32_t counts = 1;            // whether it counts in the norm
};

/// The number of the last range that begins at or before `position`; 0 if none does.
///
/// Pre:     the ranges, or what else has an offset, are in order of it.
template <class Range>
ZERO_HOST_DEVICE constexpr std::uint32_t last_range(const Range* ranges, std::uint32_t count,
                                                    std::uint64_t position) {
  std::uint32_t low = 0, high = count;  // what is before high and not before low remains
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (ranges[middle].offset <= position ? low : high) = middle;
  }
  return low;
}

}  // namespace zero
