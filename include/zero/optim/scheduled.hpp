// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Scheduled: a constant or a function of the schedule position. May include base/.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <zero/base/error.hpp>

namespace zero {

/// A setting of an optimizer that may change from step to step, such as its learning rate or its
/// weight decay: a number, or a function float(std::int64_t step) of the schedule position, which
/// is the number of steps that were applied before this one.
///
/// Pre:     the function returns the same on every rank and for every call (ranks compare it).
/// Errors:  ContractError for an empty function; `at` throws one for what the function returns if
///          that is negative or not finite.
class Scheduled {
 public:
  /// The same number in each step.
  template <class Number>
  requires std::is_arithmetic_v<Number> Scheduled(Number value)
      : value_(static_cast<float>(value)) {}

  /// Called with the number of applied steps.
  template <class Function>
  requires std::is_invocable_r_v<float, const Function&, std::int64_t> Scheduled(Function function)
      : function_(std::move(function)) {
    if (!function_) {
      throw ContractError(
          "zero::Scheduled: the function of the step is empty; give a number or a function");
    }
  }

  /// Its value for a step, which must be finite and not negative.
  float at(std::int64_t step) const {
    if (!function_) return value_;
    const float value = function_(step);
    if (makes_sense(value)) return value;
    throw ContractError("zero::Scheduled: the function returned " + std::to_string(value) +
                        " for step " + std::to_string(step) +
                        "; return a finite number that is not negative");
  }
  /// Whether it is a function, or a number that is finite and not negative.
  bool is_valid() const { return function_ || makes_sense(value_); }

 private:
  static bool makes_sense(float value) { return std::isfinite(value) && value >= 0; }

  float value_ = 0;
  std::function<float(std::int64_t)> function_;
};

using LearningRate = Scheduled;  // a rate of a step

}  // namespace zero
