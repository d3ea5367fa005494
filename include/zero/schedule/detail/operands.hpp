// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What the rules ask of one step. Includes schedule/ only.
#pragma once

#include <zero/schedule/detail/scratch.hpp>
#include <zero/schedule/program.hpp>
#include <zero/schedule/step.hpp>

namespace zero::detail {

/// The nth access of a step to `space`.
constexpr Access find(const Step& step, Space space, std::size_t nth = 0) {
  for (const Access access : step) {
    if (access.space == space && nth-- == 0) return access;
  }
  return {};
}
constexpr bool touches(const Step& step, Space space, Mode mode, std::size_t at) {
  const Access access = find(step, space);
  return access.mode == mode && access.index == at;
}
/// Whether a step is that compute.
constexpr bool is_of(const Step& step, const Compute& compute) {
  return compute.op == step.op && compute.unit == step.subject &&
         compute.micro_step == step.micro_step;
}
/// Whether no cell holds anything of a group.
template <class Cell>
constexpr bool all_free(const Scratch<Cell>& cells) {
  for (const Cell& cell : cells) {
    if (cell.group != nowhere) return false;
  }
  return true;
}

}  // namespace zero::detail
