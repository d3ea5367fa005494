// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The schedules of a module: one for training, rebuilt when the micro-steps change, one for
// evaluation.
#pragma once
#include <cstddef>
#include <set>
#include <string>
#include <zero/base/element.hpp>
#include <zero/base/error.hpp>
#include <zero/module/buffers.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/policy/make_schedule.hpp>
#include <zero/schedule/hash.hpp>
#include <zero/schedule/verify.hpp>

namespace zero::detail {

/// Builds and proves the schedules that a module runs, in storage reserved at construction.
class Schedules {
 public:
  /// Errors: ContractError if a schedule breaks a rule, or max_micro_steps is 0.
  Schedules(const StageValue& stage, const ParameterTable& parameters, std::size_t max_micro_steps)
      : parameters_(parameters), max_micro_steps_(max_micro_steps), stage_(stage), maker_(stage) {
    if (max_micro_steps == 0 || max_micro_steps >= nowhere) {
      throw ContractError("zero::ModuleOptions: max_micro_steps is " +
                          std::to_string(max_micro_steps) + "; it must lie between 1 and 65534");
    }
    Program program;
    fill_evaluation(program, parameters.shape().units());
    maker_.make(evaluation_, parameters.shape(), program);
    prove(evaluation_);
    slots_.include(evaluation_, parameters);
    // Slots depend on the number of micro-steps only in whether there are a first, a last and
    // others.
    for (const std::size_t count : std::set<std::size_t>{max_micro_steps, 3, 2, 1}) {
      if (count > max_micro_steps) continue;
      build(count);
      slots_.include(training_, parameters);
    }
    needed_ = slots_;
    build(max_micro_steps);
    most_steps_ = training_.steps.size();
    build(1);
  }

  const StageValue& stage() const { return stage_; }
  const Schedule& training() const { return training_; }
  const Schedule& evaluation() const { return evaluation_; }
  const SlotSizes& slots() const { return slots_; }
  std::size_t max_micro_steps() const { return max_micro_steps_; }
  std::size_t most_steps() const { return most_steps_; }
  std::size_t micro_steps() const { return training_.program.micro_steps; }

  /// Makes training() the schedule for `micro_steps`. Allocates nothing.
  void set_micro_steps(std::size_t micro_steps) {
    build(micro_steps);
    needed_.clear();
    needed_.include(training_, parameters_);
    if (!slots_.covers(needed_)) {
      throw ContractError("zero: the schedule for " + std::to_string(micro_steps) +
                          " micro-steps needs other slots than those for 1, 2, 3 and " +
                          std::to_string(max_micro_steps_) +
                          "; let the policy treat all middle micro-steps alike");
    }
  }

  /// What ranks must agree on: schedules, names, sizes, options of tensors, and the type of
  /// weights.
  std::uint64_t hash(DataType type) const {
    Hasher hasher;
    hasher.mix(zero::hash(training_));
    hasher.mix(zero::hash(evaluation_));
    hasher.mix(static_cast<std::uint64_t>(type));
    hasher.mix(max_micro_steps_);
    for (const TensorInfo& tensor : parameters_.tensors()) {
      hasher.mix(tensor.name);
      for (int i = 0; i < tensor.shape.rank; ++i) {
        hasher.mix(static_cast<std::uint64_t>(tensor.shape.dims[i]));
      }
      hasher.mix((tensor.decay ? 1U : 0U) + (tensor.frozen ? 2U : 0U) +
                 (tensor.replicated ? 4U : 0U));
    }
    return hasher.value();
  }

 private:
  void build(std::size_t micro_steps) {
    fill_training(program_, parameters_.shape().units(), micro_steps);
    maker_.make(training_, parameters_.shape(), program_);
    prove(training_);
  }
  void prove(const Schedule& schedule) {
    const Finding found = verifier_.verify(schedule);
    if (found.rule == Rule::none) return;
    throw ContractError("zero: the schedule of this stage for " +
                        std::to_string(schedule.model.units()) + " units and " +
                        std::to_string(schedule.program.micro_steps) +
                        " micro-steps breaks a rule at step " + std::to_string(found.step) + ": " +
                        sentence(found.rule));
  }

  const ParameterTable& parameters_;
  std::size_t max_micro_steps_, most_steps_ = 0;
  StageValue stage_;
  ScheduleMaker maker_;
  Verifier verifier_;
  Program program_;
  Schedule training_, evaluation_;
  SlotSizes slots_, needed_;
};

}  // namespace zero::detail
