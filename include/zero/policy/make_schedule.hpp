// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// make_schedule: the schedule that a stage generates. Includes schedule/ only.
#pragma once

#include <zero/policy/shards.hpp>
#include <zero/schedule/builder.hpp>
#include <zero/schedule/waits.hpp>

namespace zero {

/// Generates schedules of one stage again and again, as the number of micro-steps changes.
///
/// Allocates: only if neither it nor `out` ever held as many steps, units and micro-steps.
/// Errors:    ShapeError if the program names what the model does not have.
template <class StageType>
class ScheduleMaker {
 public:
  constexpr void make(Schedule& out, const ModelShape& model, const Program& program) {
    builder_.begin(out, model, program, StageType::traits, StageType::template slots<Parameters>(),
                   StageType::template slots<Gradients>());
    StageType::emit(builder_);
    waits_.find(out);
  }

 private:
  ScheduleBuilder builder_{};
  WaitFinder waits_{};
};

/// The schedule of one execution of `program`, with waits. The same function serves the compiler,
/// for the proof, and a module at construction, for the number of units that it has.
template <class StageType>
constexpr Schedule make_schedule(const ModelShape& model, const Program& program) {
  Schedule schedule;
  ScheduleMaker<StageType>{}.make(schedule, model, program);
  return schedule;
}

}  // namespace zero
