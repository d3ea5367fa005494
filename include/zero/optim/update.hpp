// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The update of an array by an Optimizer. May include base/.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <zero/base/array.hpp>
#include <zero/base/element.hpp>
#include <zero/optim/cast.hpp>
#include <zero/optim/detail/widest.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/optim/stochastic.hpp>

namespace zero {

namespace detail {
inline constexpr std::size_t update_block = 64;

/// Updates `blocks` * update_block elements. No other loop updates elements, and its length is
/// fixed, so that a compiler makes no second loop for what its vectors leave over: each element is
/// rounded alike wherever it lies, also where multiplications are contracted with additions.
/// Division by a power of two is multiplication by its inverse, bit for bit, and `divides` is
/// false.
template <Optimizer O, bool divides>
struct UpdateLoop {
  template <class... States>
  [[gnu::always_inline]] static void run(const typename O::Coefficients* coefficients,
                                         float divisor, float clip, std::size_t blocks,
                                         const float* __restrict gradient, float* __restrict master,
                                         States* __restrict... states) {
    const typename O::Coefficients c = *coefficients;
    for (std::size_t begin = 0; begin < blocks * update_block; begin += update_block) {
      for (std::size_t i = begin; i < begin + update_block; ++i) {
        const float quotient = divides ? gradient[i] / divisor : gradient[i] * divisor;
        O::element(c, quotient * clip, master[i], states[i]...);
      }
    }
  }
};
template <Optimizer O, class... States>
void update_blocks(const typename O::Coefficients& c, float divisor, float clip, std::size_t blocks,
                   const float* gradient, float* master, States*... states) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(divisor);
  const bool is_power = (bits & 0x7FFFFF) == 0 && divisor > 0x1p-126F && divisor < 0x1p126F;
  if (is_power) {
    run_widest<UpdateLoop<O, false>>(&c, 1 / divisor, clip, blocks, gradient, master, states...);
  } else {
    run_widest<UpdateLoop<O, true>>(&c, divisor, clip, blocks, gradient, master, states...);
  }
}

template <Optimizer O, std::size_t... I>
void update_states(const typename O::Coefficients& c, float divisor, float clip,
                   const float* gradient, float* master, float* const* states, std::size_t count,
                   std::index_sequence<I...>) {
  const std::size_t blocks = count / update_block, rest = count % update_block;
  update_blocks<O>(c, divisor, clip, blocks, gradient, master, states[I]...);
  if (rest == 0) return;
  // The rest is not a loop of its own, which could round otherwise, but a block that is filled up.
  const std::size_t begin = count - rest;
  float g[update_block] = {}, w[update_block] = {}, s[sizeof...(I) + 1][update_block] = {};
  std::copy_n(gradient + begin, rest, g);
  std::copy_n(master + begin, rest, w);
  (..., std::copy_n(states[I] + begin, rest, s[I]));
  update_blocks<O>(c, divisor, clip, 1, g, w, s[I]...);
  std::copy_n(w, rest, master + begin);
  (..., std::copy_n(s[I], rest, states[I] + begin));
}
}  // namespace detail

/// The arrays of one update, each float, bf16 or fp16 and of the same count.
///
/// `master` is what is updated: fp32, or bf16 alone, which is then rounded stochastically, as are
/// states of bf16. `compute` receives the new master, rounded to `gather` and then to its own type;
/// where it is null or the master itself there is nothing to refresh.
struct UpdateArrays {
  Array gradient, master, compute;   // of the same elements
  const Array* states = nullptr;     // as many as the optimizer has
  DataType gather = DataType::fp32;  // in which type weights travel
  RandomBits random{};               // of this tensor and counter
  std::size_t begin = 0;             // which element of its tensor the first one is

  /// The same for some of the elements, but for the states.
  UpdateArrays part(std::size_t first, std::size_t count) const {
    UpdateArrays made = *this;
    for (Array* const array : {&made.gradient, &made.master, &made.compute}) {
      *array = array->part(first, count);
    }
    made.begin += first;
    return made;
  }
};

/// Whether and with what the updates of one step run: what kernels read of it, in device memory.
struct UpdateDecision {
  std::int32_t applied = 0;     // 0: nothing is to be changed
  float divisor = 1, clip = 1;  // as for update
};

namespace detail {
// Large enough to run at full speed, small enough that what is converted stays in the cache.
inline constexpr std::size_t update_chunk = 16 * update_block;

/// Part of an array as floats: where it lies, or copied to `buffer`.
inline float* load(const Array& array, std::size_t begin, std::size_t count, float* buffer) {
  if (array.type == DataType::fp32) return array.as<float>() + begin;
  cast(array.part(begin, count), Array(buffer, count));
  return buffer;
}
/// The way back of what was changed.
inline void store(const float* from, const Array& array, std::size_t begin, std::size_t count,
                  const RandomBits& random, std::size_t element) {
  if (array.type == DataType::fp32) return;
  cast_stochastically(from, array.as<bf16>() + begin, count, random, element);
}
/// Refreshes weights that compute from new masters.
inline void refresh(const Array& master, const Array& compute, DataType gather) {
  if (gather == compute.type) return cast(master, compute);
  alignas(std::max_align_t) std::byte room[update_chunk * sizeof(float)];
  const Array narrow(room, compute.count, gather);
  cast(master, narrow);
  cast(narrow, compute);
}
}  // namespace detail

/// Updates n elements: weights, optimizer state, and the weights that compute.
///
/// The gradient that counts is gradient / divisor * clip; a clip of 1 changes no bit of it.
///
/// Order:   each element gives the same bits however an array is cut into calls.
/// Pre:     the arrays do not overlap, but for `compute`.
/// Units:   any alignment of the arrays will do.
template <Optimizer O>
void update(const typename O::Coefficients& c, float divisor, float clip,
            const UpdateArrays& arrays) {
  constexpr std::size_t chunk = detail::update_chunk;
  const std::size_t n = arrays.gradient.count;
  const bool refresh = arrays.compute.data != nullptr && arrays.compute.data != arrays.master.data;
  float gradient_room[chunk], master_room[chunk], state_room[O::states + 1][chunk];
  for (std::size_t begin = 0; begin < n; begin += chunk) {
    const std::size_t count = std::min(chunk, n - begin), element = arrays.begin + begin;
    const float* gradient = detail::load(arrays.gradient, begin, count, gradient_room);
    float* const master = detail::load(arrays.master, begin, count, master_room);
    float* states[O::states + 1] = {};
    for (std::size_t k = 0; k != O::states; ++k) {
      states[k] = detail::load(arrays.states[k], begin, count, state_room[k]);
    }
    detail::update_states<O>(c, divisor, clip, gradient, master, states, count,
                             std::make_index_sequence<O::states>());
    detail::store(master, arrays.master, begin, count, arrays.random, element);
    for (std::size_t k = 0; k != O::states; ++k) {
      detail::store(states[k], arrays.states[k], begin, count, arrays.random.with(k + 1), element);
    }
    if (refresh) {
      detail::refresh(arrays.master.part(begin, count), arrays.compute.part(begin, count),
                      arrays.gather);
    }
  }
}

/// The same for arrays whose types are known: fp32, but for `compute`. `states` has O::states
/// pointers.
template <Optimizer O, class T>
void update(const typename O::Coefficients& c, float divisor, float clip, const float* gradient,
            float* master, T* compute, float* const* states, std::size_t n) {
  Array arrays[O::states + 1];
  for (std::size_t k = 0; k != O::states; ++k) arrays[k] = Array(states[k], n);
  update<O>(c, divisor, clip,
            {.gradient = Array(gradient, n),
             .master = Array(master, n),
             .compute = Array(compute, n),
             .states = arrays,
             .gather = data_type<T>});
}

}  // namespace zero
