// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Verifier: all rules, asked of a schedule. Includes schedule/ only.
#pragma once

#include <zero/schedule/detail/contents.hpp>
#include <zero/schedule/detail/races.hpp>

namespace zero {

/// Checks R1 to R10 in time linear in the number of steps.
///
/// Why it is a proof: the contents are checked for execution in issue order; without races every
/// legal execution computes what that one computes; and an execution ends as it began, so what
/// holds for one holds for all.
///
/// Allocates: only if it never saw as large a schedule.
class Verifier {
 public:
  /// The first rule that the schedule breaks.
  constexpr Finding verify(const Schedule& schedule) {
    if (const Finding f = contents_.check(schedule); f.rule != Rule::none) return f;
    if (const Finding f = detail::check_waits(schedule); f.rule != Rule::none) return f;
    return races_.check(schedule);
  }
  /// Obtains room for schedules of a model with that many steps, buffers and micro-steps, and uses
  /// of a unit in each.
  constexpr void reserve(const ModelShape& model, std::size_t steps, std::size_t buffers,
                         std::size_t micro_steps, std::size_t uses) {
    contents_.reserve(model, buffers, micro_steps, uses);
    races_.reserve(steps, buffers);
  }

 private:
  detail::Contents contents_{};
  detail::Races races_{};
};

/// The first rule that `schedule` breaks, or Rule::none.
constexpr Finding verify(const Schedule& schedule) {
  Verifier verifier;
  return verifier.verify(schedule);
}

}  // namespace zero
