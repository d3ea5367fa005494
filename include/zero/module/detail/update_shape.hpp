// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What the optimizers of a module ask of its layout. May include optim/ and module/.
#pragma once
#include <cstddef>
#include <string_view>
#include <zero/module/parameter_table.hpp>
#include <zero/optim/groups.hpp>
#include <zero/optim/optimizer.hpp>

namespace zero::detail {

template <class Optimizer>
UpdateShape update_shape([[maybe_unused]] const Groups<Optimizer>& groups) {
  UpdateShape made;
  if constexpr (RangeOptimizer<Optimizer>) {
    made.block = Optimizer::block == whole_tensor ? 0 : Optimizer::block;
    made.states = Optimizer::states;
    made.groups = &groups;
    made.numbers = [](const void* of, std::string_view tensor, std::size_t k, const Shape& shape) {
      return static_cast<const Groups<Optimizer>*>(of)->of(tensor).state_numbers(k, shape);
    };
    made.scratch = [](const void* of, std::string_view tensor, const Shape& shape) {
      return static_cast<const Groups<Optimizer>*>(of)->of(tensor).scratch_numbers(shape);
    };
  }
  return made;
}

}  // namespace zero::detail
