// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A product of matrices without a library. May include base/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <zero/optim/detail/widest.hpp>

namespace zero {

namespace detail {
struct ProductLoop {
  static constexpr std::size_t high = 4, wide = 16;  // of a tile whose sums stay in registers

  /// `full`: the tile is high * wide, as the compiler knows then.
  template <bool full>
  [[gnu::always_inline]] static void tile(const float* __restrict a, const float* __restrict b,
                                          float* __restrict c, std::size_t rows, std::size_t inner,
                                          std::size_t columns, std::size_t width) {
    float sums[high][wide] = {};
    const std::size_t h = full ? high : rows, w = full ? wide : width;
    for (std::size_t k = 0; k < inner; ++k) {
      for (std::size_t i = 0; i < h; ++i) {
        const float factor = a[i * inner + k];
        for (std::size_t j = 0; j < w; ++j) sums[i][j] += factor * b[k * columns + j];
      }
    }
    for (std::size_t i = 0; i < h; ++i) std::copy_n(sums[i], w, c + i * columns);
  }
  [[gnu::always_inline]] static void run(const float* a, const float* b, float* c, std::size_t rows,
                                         std::size_t inner, std::size_t columns) {
    for (std::size_t j = 0; j < columns; j += wide) {
      const std::size_t width = std::min(wide, columns - j);
      for (std::size_t i = 0; i < rows; i += high) {
        const std::size_t height = std::min(high, rows - i);
        const float* const from = a + i * inner;
        float* const to = c + i * columns + j;
        if (height == high && width == wide) {
          tile<true>(from, b + j, to, high, inner, columns, wide);
        } else {
          tile<false>(from, b + j, to, height, inner, columns, width);
        }
      }
    }
  }
};
}  // namespace detail

/// c <- a b, row by row in fp32.
///
/// Shape:   a [rows * inner], b [inner * columns], c [rows * columns]; c overlaps neither.
/// Order:   each sum runs over `inner` in order.
struct MatrixProduct {
  /// C = a b, of matrices in row-major order.
  static void multiply(const float* a, const float* b, float* c, std::size_t rows,
                       std::size_t inner, std::size_t columns) {
    detail::run_widest<detail::ProductLoop>(a, b, c, rows, inner, columns);
  }
};

}  // namespace zero
