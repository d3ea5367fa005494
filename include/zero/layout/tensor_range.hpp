// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// TensorRange: where one tensor lies in its group, as plain data. Standard library only.
#pragma once

#include <cstdint>

namespace zero {

/// One tensor of a group, for code that walks over the group's elements on a device. What lies
/// between two ranges is padding.
///
/// Units:   elements of the group, with its padding.
struct TensorRange {
  std::uint64_t offset, size;
  std::uint32_t tensor;  // its index in the model
  std::uint32_t counts;  // whether it counts in the norm; else another rank counts it
};

}  // namespace zero
