// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The Optimizer concept: how an element, a block or a whole tensor is updated. May include layout/.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <zero/layout/tensor.hpp>

struct CUstream_st;  // what a cudaStream_t points to

namespace zero {

struct UpdateArrays;
template <class Coefficients, std::size_t States>
struct OwnedPiece;

namespace detail {
template <std::size_t>
using State = float&;

template <class T, std::size_t... I>
consteval bool updates_elements(std::index_sequence<I...>) {
  return requires(const typename T::Coefficients& c, float gradient, float& master,
                  State<I>... states) {
    { T::element(c, gradient, master, states...) } -> std::same_as<void>;
  };
}
}  // namespace detail

/// What all update rules have.
///
/// T::states        numbers that are kept per element; each starts at 0.
/// T::Coefficients  trivially copyable, without padding: what the elements of one tensor share in a
///                  step. Ranks compare its bytes.
/// coefficients(counter, step, decay)
///                  `counter` is 1 at the first update of the tensor, `step` the schedule position
///                  from 0, `decay` whether weight decay applies.
/// check()          may be left out: throws ContractError for settings that make no sense.
template <class T>
concept UpdateRule = std::copyable<T> && std::is_trivially_copyable_v<typename T::Coefficients> &&
    requires(const T& optimizer, std::int64_t counter, std::int64_t step, bool decay) {
  { T::states } -> std::convertible_to<std::size_t>;
  { optimizer.coefficients(counter, step, decay) } -> std::same_as<typename T::Coefficients>;
};

/// An element-wise update rule. tests/optim/conformance.hpp holds the suite that proves a model.
///
/// element(c, gradient, master, state...)
///                  static: updates one element. It sees no position and no neighbour, so that any
///                  cut of a tensor into pieces gives the same bits; it is plain arithmetic, for
///                  loops on the host and kernels alike: for kernels it is marked ZERO_HOST_DEVICE.
template <class T>
concept ElementOptimizer = UpdateRule<T> &&
    detail::updates_elements<T>(std::make_index_sequence<T::states>());

/// RangeOptimizer::block of a rule that needs whole tensors.
inline constexpr std::size_t whole_tensor = ~std::size_t{0};

/// An update rule whose elements depend on their neighbours: on those of their block, counted from
/// the beginning of the tensor, or on the whole tensor. Layouts put each block, or each tensor, on
/// one rank, so that no bit depends on the number of ranks. On the host only.
///
/// T::block         elements of a block, a multiple of 32; or whole_tensor. It replaces `states`
///                  numbers an element: what is kept of a state is
/// state_numbers(k, shape)
///                  fp32 numbers, for a block of block elements, or for a whole tensor of a shape.
/// scratch_numbers(shape)
///                  fp32 numbers of room that update needs for such a block or tensor.
/// update(c, divisor, clip, shape, arrays, scratch)
///                  static: updates a part of a tensor of `shape` that begins at a block and ends
///                  at one or at the end of the tensor. The gradient that counts is
///                  gradient / divisor * clip. arrays.states are fp32, [what is kept of the part].
/// unpack_state(k, kept, out, count), pack_state(k, in, kept, count)
///                  static, of a rule with blocks only: `count` numbers, one an element, from what
///                  is kept of them and back. To pack what was unpacked changes no bit of either.
template <class T>
concept RangeOptimizer = UpdateRule<T> &&
    requires(const T& optimizer, const typename T::Coefficients& c, const Shape& shape,
             const UpdateArrays& arrays, float* scratch, float factor, std::size_t k) {
  { T::block } -> std::convertible_to<std::size_t>;
  { optimizer.state_numbers(k, shape) } -> std::same_as<std::size_t>;
  { optimizer.scratch_numbers(shape) } -> std::same_as<std::size_t>;
  T::update(c, factor, factor, shape, arrays, scratch);
};

/// An update rule with a kernel of the caller's own, for CUDA devices; see owned_piece.hpp. It may
/// have `element` too, for the host.
///
/// enqueue(stream, piece)
///                  static: enqueues the kernel that updates one contiguous piece, called for each
///                  that the rank owns. The kernel writes nothing unless piece.applies().
template <class T>
concept KernelOptimizer = UpdateRule<T> &&
    requires(CUstream_st* stream, const OwnedPiece<typename T::Coefficients, T::states>& piece) {
  T::enqueue(stream, piece);
};

template <class T>
concept Optimizer = ElementOptimizer<T> || RangeOptimizer<T> || KernelOptimizer<T>;

}  // namespace zero
