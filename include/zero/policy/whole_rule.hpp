// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// WholeRule: which parameters of a sharded unit a stage keeps whole. Includes the standard library.
#pragma once

#include <cstddef>

namespace zero {

/// What a policy may ask of a tensor.
struct TensorFacts {
  const char* name = "";              // "block.3.norm.weight"
  int rank = 0;                       // dimensions
  std::size_t elements = 0;           // of the whole tensor
  bool decay = true, frozen = false;  // as it was declared
};

/// Tensors of which `tensor` says so are groups of their own that are always whole, and so are
/// groups with fewer elements than `smaller_than`.
struct WholeRule {
  std::size_t smaller_than = 0;  // groups of fewer elements stay whole
  /// Whether a tensor stays whole; null: none does.
  bool (*tensor)(const TensorFacts&) = nullptr;
  /// Whether there is a `tensor`: with sanitizers, g++ compares no pointers in constants.
  bool asks = false;
};

}  // namespace zero
