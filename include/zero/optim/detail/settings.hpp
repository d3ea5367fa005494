// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The check of one setting of an optimizer. Includes optim/scheduled.hpp.
#pragma once

#include <cmath>
#include <string>
#include <zero/base/error.hpp>
#include <zero/optim/scheduled.hpp>

namespace zero::detail {

/// Throws a ContractError that names the setting unless it is as expected.
inline void check_setting(bool valid, const char* setting, const char* expected, float value) {
  if (valid) return;
  throw ContractError(std::string("zero::") + setting + " is " + std::to_string(value) +
                      "; expected " + expected);
}
inline void check_positive(const char* setting, float value) {
  check_setting(std::isfinite(value) && value > 0, setting, "a finite number above 0", value);
}
/// A number that is finite and not negative, or a function, which is checked when it is called.
inline void check_scheduled(const char* setting, const Scheduled& value) {
  if (value.is_valid()) return;
  check_setting(false, setting, "a finite number from 0, or a function", value.at(0));
}
/// The weight of the past in an average.
inline void check_share(const char* setting, float value) {
  check_setting(value >= 0 && value < 1, setting, "a number from 0 and below 1", value);
}

}  // namespace zero::detail
