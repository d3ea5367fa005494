// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Tensors that lie anywhere, put together in one flat array. May include base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <zero/base/array.hpp>
#include <zero/optim/cast.hpp>

namespace zero {

/// A tensor, and where it begins in a flat array.
struct PackedTensor {
  Array tensor;              // the elements
  std::uint64_t offset = 0;  // in elements
};

/// Copies each tensor to its place in `flat`, with the conversion of cast. What lies between the
/// places is left as it is.
///
/// Pre:     the places lie in `flat` and do not overlap; all are float, bf16 or fp16.
inline void pack(std::span<const PackedTensor> tensors, const Array& flat) {
  for (const PackedTensor& packed : tensors) {
    cast(packed.tensor, flat.part(packed.offset, packed.tensor.count));
  }
}
/// Copies each tensor from its place in `flat`.
inline void unpack(const Array& flat, std::span<const PackedTensor> tensors) {
  for (const PackedTensor& packed : tensors) {
    cast(flat.part(packed.offset, packed.tensor.count), packed.tensor);
  }
}

}  // namespace zero
