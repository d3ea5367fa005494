// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The sum over ranks of one part of their buffers. Includes base/ and comm/collective.hpp.
#pragma once

#include <cstddef>
#include <type_traits>
#include <zero/base/element.hpp>
#include <zero/comm/collective.hpp>

namespace zero::detail {

/// The type in which elements of T are summed.
template <class T>
using SumType = std::conditional_t<sizeof(T) == 2, float, T>;

/// sums[i] = a[i] + b[i] + ..., from the left; `more` begins with the old value of sums[i].
template <bool more, class T, class Sum, class Size, class... Others>
void add(Sum* __restrict sums, Size size, const T* __restrict a, const Others* __restrict... b) {
  for (std::size_t i = 0; i < size; ++i) {
    Sum sum = static_cast<Sum>(a[i]);
    if constexpr (more) sum = sums[i] + sum;
    ((sum += static_cast<Sum>(b[i])), ...);
    sums[i] = sum;
  }
}

/// Sums [0, count) of all ranks in rank order into `out`; `source(rank)` points to a rank's part.
///
/// Each block is read from all ranks before it is written, so that `out` may be one of the sources;
/// its sums stay in the first-level cache, so that memory is read and written once.
template <Element T, class Source>
void sum_over_ranks(Source source, std::size_t ranks, T* out, std::size_t count,
                    Accumulate accumulate, Reduction reduction) {
  using Sum = SumType<T>;
  constexpr std::size_t block = 128;
  const auto sum_block = [&](std::size_t begin, auto size) {
    Sum sums[block];
    const auto from = [&](std::size_t rank) { return source(rank) + begin; };
    std::size_t rank = ranks >= 4 ? 4 : ranks >= 2 ? 2 : 1;
    if (rank == 4) {
      add<false>(sums, size, from(0), from(1), from(2), from(3));
    } else if (rank == 2) {
      add<false>(sums, size, from(0), from(1));
    } else {
      add<false>(sums, size, from(0));
    }
    for (; rank + 4 <= ranks; rank += 4) {
      add<true>(sums, size, from(rank), from(rank + 1), from(rank + 2), from(rank + 3));
    }
    for (; rank < ranks; ++rank) add<true>(sums, size, from(rank));
    if (reduction == Reduction::average) {
      for (std::size_t i = 0; i < size; ++i) sums[i] /= static_cast<Sum>(ranks);
    }
    T* __restrict to = out + begin;
    if (accumulate == Accumulate::yes) {
      for (std::size_t i = 0; i < size; ++i) to[i] = T(static_cast<Sum>(to[i]) + sums[i]);
    } else {
      for (std::size_t i = 0; i < size; ++i) to[i] = T(sums[i]);
    }
  };
  // The size is a constant for all blocks but the last: such loops become vectors at -O2 as well.
  std::size_t begin = 0;
  for (; begin + block <= count; begin += block) {
    sum_block(begin, std::integral_constant<std::size_t, block>{});
  }
  if (begin < count) sum_block(begin, count - begin);
}

}  // namespace zero::detail
