// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// make_schedule: the schedule that a stage generates. Includes schedule/ and policy/ only.
#pragma once

#include <zero/policy/shards.hpp>
#include <zero/policy/whole_rule.hpp>
#include <zero/schedule/builder.hpp>
#include <zero/schedule/waits.hpp>

namespace zero {

/// A stage as a value: all that its schedules are generated from. Code that takes it is compiled
/// once for all stages.
struct StageValue {
  StageTraits traits{};     // what is sharded
  Slots params{}, grads{};  // how many there are of each
  /// Adds all steps of a program.
  void (*emit)(ScheduleBuilder&) = nullptr;
  WholeRule whole{};            // what stays whole
  std::size_t state_slots = 0;  // for optimizer state on its way, where it is offloaded
};
/// A stage as a value.
template <class StageType>
inline constexpr StageValue stage_value{StageType::traits,
                                        StageType::template slots<Parameters>(),
                                        StageType::template slots<Gradients>(),
                                        &StageType::emit,
                                        StageType::whole(),
                                        StageType::state_slots()};

/// Generates schedules of one stage again and again, as the number of micro-steps changes.
///
/// Allocates: only if neither it nor `out` ever held as many steps, units and micro-steps.
/// Errors:    ShapeError if the program names what the model does not have.
class ScheduleMaker {
 public:
  /// Makes schedules of this stage.
  constexpr explicit ScheduleMaker(const StageValue& stage) : stage_(stage) {}
  /// Makes that of a model and a program, in the room that `out` has.
  constexpr void make(Schedule& out, const ModelShape& model, const Program& program) {
    builder_.begin(out, model, program, stage_.traits, stage_.params, stage_.grads,
                   stage_.state_slots);
    stage_.emit(builder_);
    waits_.find(out);
  }
  /// Obtains room in itself and in `out`, for schedules of a model with that many steps and
  /// buffers, and programs with that many computes and micro-steps.
  constexpr void reserve(Schedule& out, const ModelShape& model, std::size_t steps,
                         std::size_t buffers, std::size_t computes, std::size_t micro_steps) {
    out.steps.reserve(steps);
    out.program.computes.reserve(computes);
    builder_.reserve(model, computes, micro_steps);
    waits_.reserve(steps, buffers);
  }

 private:
  StageValue stage_;
  ScheduleBuilder builder_{};
  WaitFinder waits_{};
};

/// The schedule of one execution of `program`, with waits. The same function serves the compiler,
/// for the proof, and a module at construction, for the number of units that it has.
constexpr Schedule make_schedule(const StageValue& stage, const ModelShape& model,
                                 const Program& program) {
  Schedule schedule;
  ScheduleMaker(stage).make(schedule, model, program);
  return schedule;
}
/// The schedule of a stage for a model and a program.
template <class StageType>
constexpr Schedule make_schedule(const ModelShape& model, const Program& program) {
  return make_schedule(stage_value<StageType>, model, program);
}

}  // namespace zero
