// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Weights of a narrow type as the float weights that the math reads. Includes model.hpp and
// zero/base.
#pragma once

#include <algorithm>
#include <array>
#include <zero/base/element.hpp>
#include <zero/layout/fields.hpp>

#include "model.hpp"

namespace gpt {

/// Elements of the largest unit of the model: the size of the scratch for widen().
constexpr Size largest_unit(const Config& c) {
  const Size block = 2 * c.width + 4 * c.width * c.width + 2 * c.width * c.inner();
  return std::max(block, (byte_values + std::max<Size>(c.context, 1)) * c.width);
}

/// The unit's weights in float: copied into `scratch`, or the same view where they are float
/// already.
template <template <class> class Kind, class T>
Kind<float> widen(const Config& c, const Kind<T>& unit, [[maybe_unused]] float* scratch) {
  if constexpr (std::is_same_v<T, float>) {
    return unit;
  } else {
    constexpr auto fields = Kind<T>::tensors(Config{}).size();
    std::array<float*, fields> begins{};
    std::size_t i = 0;
    Kind<T>::tensors(c).for_each([&](const auto& field) {
      begins[i++] = scratch;
      for (const T value : unit.*field.member) *scratch++ = static_cast<float>(value);
    });
    return zero::view_of<Kind, float>(c, [&](std::size_t tensor) { return begins[tensor]; });
  }
}

}  // namespace gpt
