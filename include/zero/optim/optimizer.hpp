// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The Optimizer concept: how one element is updated. Standard library only.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace zero {

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

/// An element-wise update rule. tests/optim/conformance.hpp holds the suite that proves a model.
///
/// T::states        fp32 numbers that are kept per element; each starts at 0.
/// T::Coefficients  trivially copyable, without padding: what the elements of one tensor share in a
///                  step. Ranks compare its bytes.
/// coefficients(counter, step, decay)
///                  `counter` is 1 at the first update of the tensor, `step` the schedule position
///                  from 0, `decay` whether weight decay applies.
/// element(c, gradient, master, state...)
///                  static: updates one element. It sees no position and no neighbour, so that any
///                  cut of a tensor into pieces gives the same bits; it is plain arithmetic, for
///                  loops on the host and kernels alike: for kernels it is marked ZERO_HOST_DEVICE.
/// check()          may be left out: throws ContractError for settings that make no sense.
template <class T>
concept Optimizer = std::copyable<T> && std::is_trivially_copyable_v<typename T::Coefficients> &&
    requires(const T& optimizer, std::int64_t counter, std::int64_t step, bool decay) {
  { T::states } -> std::convertible_to<std::size_t>;
  { optimizer.coefficients(counter, step, decay) } -> std::same_as<typename T::Coefficients>;
} && detail::updates_elements<T>(std::make_index_sequence<T::states>());

}  // namespace zero
