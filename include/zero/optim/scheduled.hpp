// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Scheduled: a constant or a function of the schedule position. May include base/.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
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
///          Copies share it: ranks that are threads may call it at once.
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
      : function_(std::make_shared<Of<Function>>(std::move(function))) {}

  /// Its value for a step, which must be finite and not negative.
  float at(std::int64_t step) const {
    if (function_ == nullptr) return value_;
    const float value = function_->at(step);
    if (makes_sense(value)) return value;
    throw ContractError("zero::Scheduled: the function returned " + std::to_string(value) +
                        " for step " + std::to_string(step) +
                        "; return a finite number that is not negative");
  }
  /// Whether it is a function, or a number that is finite and not negative.
  bool is_valid() const { return function_ != nullptr || makes_sense(value_); }

 private:
  static bool makes_sense(float value) { return std::isfinite(value) && value >= 0; }

  // Not a std::function, because <functional> is a twelfth of what all standard headers of the
  // library cost to include.
  struct Callable {
    virtual ~Callable() = default;
    virtual float at(std::int64_t step) const = 0;
  };
  template <class Function>
  struct Of final : Callable {
    explicit Of(Function f) : function(std::move(f)) {
      if constexpr (std::is_assignable_v<Function&, std::nullptr_t>) {  // it may be empty
        if (function != nullptr) return;
        throw ContractError(
            "zero::Scheduled: the function of the step is empty; give a number or a function");
      }
    }
    float at(std::int64_t step) const override { return function(step); }
    Function function;
  };

  float value_ = 0;
  std::shared_ptr<const Callable> function_;
};

using LearningRate = Scheduled;  // a rate of a step

}  // namespace zero
