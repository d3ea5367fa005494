// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Conversion of arrays between float, bf16 and fp16. May include base/.
#pragma once

#include <cstddef>
#include <zero/base/element.hpp>

namespace zero {

/// One element as another type: exact if it fits, else rounded to nearest, ties to even.
template <class To>
struct Cast {
  template <class From>
  static constexpr To element(From value) {
    return from_float<To>(to_float(value));
  }
};

/// Converts n elements. Each of the types is float, bf16 or fp16.
///
/// Pre:     the arrays do not overlap.
template <class From, class To>
void cast(const From* __restrict from, To* __restrict to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = Cast<To>::element(from[i]);
}

}  // namespace zero
