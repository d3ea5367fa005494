// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What the rules ask of one step. Includes schedule/ only.
#pragma once

#include <zero/schedule/step.hpp>

namespace zero::detail {

/// The nth access of a step to `space`.
constexpr Access find(const Step& step, Space space, std::size_t nth = 0) {
  for (const Access& access : step) {
    if (access.space == space && nth-- == 0) return access;
  }
  return {};
}
constexpr bool touches(const Step& step, Space space, Mode mode, std::size_t at) {
  const Access access = find(step, space);
  return access.mode == mode && access.index == at;
}

}  // namespace zero::detail
