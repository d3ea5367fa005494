// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// LearningRate: a constant or a function of the schedule position. May include base/.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <zero/base/error.hpp>

namespace zero {

/// What an optimizer multiplies its direction with: a number, or a function float(std::int64_t
/// step) of the schedule position, which is the number of steps that were applied before this one.
///
/// Pre:     the function returns the same on every rank.
/// Errors:  ContractError for an empty function.
class LearningRate {
 public:
  template <class Number>
  requires std::is_arithmetic_v<Number> LearningRate(Number value)
      : value_(static_cast<float>(value)) {}

  template <class Function>
  requires std::is_invocable_r_v<float, const Function&, std::int64_t> LearningRate(
      Function function)
      : function_(std::move(function)) {
    if (!function_) {
      throw ContractError(
          "zero::LearningRate: the function of the step is empty; give a number or a function");
    }
  }

  float at(std::int64_t step) const { return function_ ? function_(step) : value_; }

 private:
  float value_ = 0;
  std::function<float(std::int64_t)> function_;
};

}  // namespace zero
