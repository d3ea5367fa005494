// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The update of an array by an Optimizer. May include base/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <zero/base/element.hpp>
#include <zero/optim/cast.hpp>
#include <zero/optim/optimizer.hpp>

namespace zero {

namespace detail {
inline constexpr std::size_t update_block = 64;

/// Updates `blocks` * update_block elements. No other loop updates elements, and its length is
/// fixed, so that a compiler makes no second loop for what its vectors leave over: each element is
/// rounded alike wherever it lies, also where multiplications are contracted with additions.
template <Optimizer O, class... States>
[[gnu::noinline]] void update_blocks(const typename O::Coefficients& coefficients, float divisor,
                                     float clip, std::size_t blocks,
                                     const float* __restrict gradient, float* __restrict master,
                                     States* __restrict... states) {
  const typename O::Coefficients c = coefficients;
  for (std::size_t begin = 0; begin < blocks * update_block; begin += update_block) {
    for (std::size_t i = begin; i < begin + update_block; ++i) {
      O::element(c, gradient[i] / divisor * clip, master[i], states[i]...);
    }
  }
}

template <Optimizer O, std::size_t... I>
void update_states(const typename O::Coefficients& c, float divisor, float clip,
                   const float* gradient, float* master, float* const* states, std::size_t begin,
                   std::size_t count, std::index_sequence<I...>) {
  const std::size_t blocks = count / update_block, rest = count % update_block;
  update_blocks<O>(c, divisor, clip, blocks, gradient + begin, master + begin,
                   (states[I] + begin)...);
  if (rest == 0) return;
  // The rest is not a loop of its own, which could round otherwise, but a block that is filled up.
  begin += count - rest;
  float g[update_block] = {}, w[update_block] = {}, s[sizeof...(I) + 1][update_block] = {};
  std::copy_n(gradient + begin, rest, g);
  std::copy_n(master + begin, rest, w);
  (..., std::copy_n(states[I] + begin, rest, s[I]));
  update_blocks<O>(c, divisor, clip, 1, g, w, s[I]...);
  std::copy_n(w, rest, master + begin);
  (..., std::copy_n(s[I], rest, states[I] + begin));
}
}  // namespace detail

/// Updates n elements: weights, optimizer state, and the weights that compute.
///
/// The gradient that counts is gradient / divisor * clip; a clip of 1 changes no bit of it.
/// `compute` receives the new master weights, rounded to T; where it is null or `master` itself
/// there is nothing to refresh. `states` has O::states pointers.
///
/// Order:   each element gives the same bits however an array is cut into calls.
/// Pre:     the arrays do not overlap, but for `compute`.
/// Units:   n is elements; any alignment of the arrays will do.
template <Optimizer O, class T>
void update(const typename O::Coefficients& c, float divisor, float clip, const float* gradient,
            float* master, T* compute, float* const* states, std::size_t n) {
  // Large enough to run at full speed, small enough that its weights are in the cache when cast.
  constexpr std::size_t chunk = 16 * detail::update_block;
  const bool refresh = compute != nullptr && static_cast<void*>(compute) != master;
  for (std::size_t begin = 0; begin < n; begin += chunk) {
    const std::size_t count = std::min(chunk, n - begin);
    detail::update_states<O>(c, divisor, clip, gradient, master, states, begin, count,
                             std::make_index_sequence<O::states>());
    if (refresh) cast(master + begin, compute + begin, count);
  }
}

}  // namespace zero
