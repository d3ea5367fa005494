// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The schedules of a module: one for training and one for evaluation, rebuilt when their program
// changes.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <zero/base/element.hpp>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/module/buffers.hpp>
#include <zero/module/detail/program_check.hpp>
#include <zero/module/options.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/policy/make_schedule.hpp>
#include <zero/schedule/hash.hpp>
#include <zero/schedule/verify.hpp>

namespace zero::detail {

/// A schedule and what a module must know of its program.
struct Planned {
  explicit Planned(const ParameterTable& parameters) : check(parameters) {}
  const Program& program() const { return schedule.program; }
  /// The compute at `place`, or null past the end.
  const Compute* next(std::size_t place) const {
    return place < program().computes.size() ? &program().computes[place] : nullptr;
  }
  /// The first compute from `place` on that does `op`.
  ///
  /// Errors:  ContractError if there is none.
  const Compute& next(std::size_t place, Op op) const {
    while (place < program().computes.size() && program().computes[place].op != op) ++place;
    if (const Compute* const found = next(place)) return *found;
    throw ContractError(
        std::string("zero: ") + info(op).name +
        " was called, but the program of this step has none any more; call what comes next, "
        "backward or finish");
  }

  Schedule schedule;
  ProgramCheck check;
  bool own = false;    // it follows a program of the caller's
  bool valid = false;  // it can run
};

/// Builds and proves the schedules that a module runs, in storage reserved at construction.
class Schedules {
 public:
  /// Errors: ContractError if a schedule breaks a rule, max_micro_steps is 0, or a program makes no
  ///         sense.
  Schedules(const StageValue& stage, const ParameterTable& parameters, const ModuleOptions& options)
      : parameters_(parameters),
        max_micro_steps_(options.max_micro_steps),
        stage_(stage),
        maker_(stage),
        programs_(options.programs.begin(), options.programs.end()),
        training_(parameters),
        evaluation_(parameters) {
    if (max_micro_steps_ == 0 || max_micro_steps_ >= nowhere) {
      throw ContractError("zero::ModuleOptions: max_micro_steps is " +
                          std::to_string(max_micro_steps_) + "; it must lie between 1 and 65534");
    }
    max_computes_ = 2 * parameters.shape().units() * max_micro_steps_;
    for (const Program& program : programs_) {
      max_computes_ = std::max(max_computes_, program.computes.size());
      max_uses_ = std::max(max_uses_, uses(program));
    }
    // Slots depend on the number of micro-steps only in whether there are a first, a last and
    // others, so that of those after 3 the last will do.
    for (std::size_t count = 1; count <= max_micro_steps_;
         count = count < 3 ? count + 1 : std::max(count + 1, max_micro_steps_)) {
      fill_training(plain_, units(), count);
      provide_for(training_, "shard", plain_);
    }
    home_ = training_.schedule.home;
    fill_evaluation(plain_, units());
    provide_for(evaluation_, "shard", plain_);
    for (const Program& program : programs_) {
      check_size("ModuleOptions::programs", program);
      provide_for(program.updates ? training_ : evaluation_, "ModuleOptions::programs", program);
    }
    most_steps_ = std::max(most_steps_, steps_at_most(max_computes_));
    needed_ = slots_;
    reserve();
    plan_evaluation(nullptr);
    plan_training(nullptr, 1);
  }

  const StageValue& stage() const { return stage_; }
  const Schedule& training() const { return training_.schedule; }
  const Schedule& evaluation() const { return evaluation_.schedule; }
  const Planned& planned_training() const { return training_; }
  const Planned& planned_evaluation() const { return evaluation_; }
  const List<Program>& programs() const { return programs_; }
  const SlotSizes& slots() const { return slots_; }
  std::size_t max_micro_steps() const { return max_micro_steps_; }
  std::size_t max_keys() const { return units() * max_micro_steps_ * max_uses_; }
  /// Steps that no schedule exceeds.
  std::size_t most_steps() const { return most_steps_; }

  /// Whether training() follows `program`, or the usual order where that is null.
  bool is_training(const Program* program, std::size_t micro_steps) const {
    if (program != nullptr) return follows(training_, *program);
    return training_.valid && !training_.own && micro_steps == training_.program().micro_steps;
  }
  bool is_evaluation(const Program* program) const {
    if (program != nullptr) return follows(evaluation_, *program);
    return evaluation_.valid && !evaluation_.own;
  }
  /// Makes training() the schedule of `program`, or of the usual order where that is null.
  /// Allocates nothing.
  ///
  /// Errors:  ContractError for a program that makes no sense or needs more than is reserved; then
  ///          nothing is planned.
  void plan_training(const Program* program, std::size_t micro_steps) {
    if (program == nullptr && (micro_steps == 0 || micro_steps > max_micro_steps_)) {
      throw ContractError("zero: begin_step: expected 1 to " + std::to_string(max_micro_steps_) +
                          " micro-steps, got " + std::to_string(micro_steps) +
                          (micro_steps == 0 ? "; a step has at least one"
                                            : "; raise ModuleOptions::max_micro_steps"));
    }
    if (program == nullptr) fill_training(plain_, units(), micro_steps);
    if (program != nullptr && !program->updates) {
      throw ContractError(
          "zero: begin_step: the program does not update; set Program::updates, or "
          "pass it to evaluate");
    }
    plan(training_, "begin_step", program);
  }
  void plan_evaluation(const Program* program) {
    if (program == nullptr) fill_evaluation(plain_, units());
    if (program != nullptr && program->updates) {
      throw ContractError("zero: evaluate: the program updates; pass it to begin_step");
    }
    plan(evaluation_, "evaluate", program);
  }
  /// What is planned does not hold, until it is kept after all.
  void drop(const Planned& planned) { mutable_of(planned).valid = false; }
  void keep(const Planned& planned) { mutable_of(planned).valid = true; }

  /// What ranks must agree on: schedules, names, sizes, options of tensors, and all types.
  std::uint64_t hash(std::uint64_t rounding_seed) const {
    Hasher hasher;
    hasher.mix(zero::hash(training_.schedule));
    hasher.mix(zero::hash(evaluation_.schedule));
    hasher.mix(rounding_seed);
    const Precision& types = parameters_.precision();
    for (const DataType type :
         {types.compute, types.gather, types.reduce, types.accumulate, types.moments}) {
      hasher.mix(static_cast<std::uint64_t>(type));
    }
    hasher.mix(std::uint64_t{types.master});
    hasher.mix(max_micro_steps_);
    hasher.mix(max_computes_);
    hasher.mix(max_uses_);
    for (const List<std::size_t>* sizes : {&slots_.params, &slots_.gradients}) {
      for (const std::size_t size : *sizes) hasher.mix(size);
    }
    for (const TensorInfo& tensor : parameters_.tensors()) {
      hasher.mix(tensor.name);
      for (int i = 0; i < tensor.shape.rank; ++i) {
        hasher.mix(static_cast<std::uint64_t>(tensor.shape.dims[i]));
      }
      hasher.mix((tensor.decay ? 1U : 0U) + (tensor.frozen ? 2U : 0U) +
                 (tensor.replicated ? 4U : 0U) + 8U * static_cast<unsigned>(tensor.type));
    }
    return hasher.value();
  }

 private:
  Planned& mutable_of(const Planned& planned) {
    return &planned == &training_ ? training_ : evaluation_;
  }
  std::size_t units() const { return parameters_.shape().units(); }
  static bool follows(const Planned& planned, const Program& program) {
    return planned.valid && planned.own && planned.program().micro_steps == program.micro_steps &&
           planned.program().updates == program.updates &&
           planned.program().computes == program.computes;
  }
  /// Each compute gathers and releases its groups at most once, and each backward reduces them; the
  /// rest comes once for each group. A policy that does more needs more, which is refused then.
  std::size_t steps_at_most(std::size_t computes) const {
    std::size_t groups = 0;
    for (std::size_t u = 0; u < units(); ++u) {
      groups = std::max<std::size_t>(groups, parameters_.shape().unit(u).count);
    }
    const std::size_t each =
        (stage_.traits.shards_params ? 2 * groups : 0) + (stage_.traits.shards_grads ? groups : 0);
    return computes * (1 + each) + 8 * parameters_.groups().size() + 1;
  }
  void reserve() {
    const ModelShape& shape = parameters_.shape();
    const std::size_t activations = std::min<std::size_t>(max_keys(), nowhere);
    const std::size_t buffers = activations + 6 * shape.groups() + 3;
    for (Planned* planned : {&training_, &evaluation_}) {
      maker_.reserve(planned->schedule, shape, most_steps_, buffers, max_computes_,
                     max_micro_steps_);
      planned->check.reserve(max_computes_, max_micro_steps_, max_uses_);
    }
    verifier_.reserve(shape, most_steps_, buffers, max_micro_steps_, max_uses_);
    plain_.computes.reserve(max_computes_);
  }
  void provide_for(Planned& planned, const char* call, const Program& program) {
    build(planned, call, program);
    slots_.include(planned.schedule, parameters_);
    most_steps_ = std::max(most_steps_, planned.schedule.steps.size());
  }
  void plan(Planned& planned, const char* call, const Program* program) {
    planned.valid = false;
    planned.own = program != nullptr;
    if (program != nullptr) check_size(call, *program);
    build(planned, call, program != nullptr ? *program : plain_);
    needed_.clear();
    needed_.include(planned.schedule, parameters_);
    if (most_steps_ < planned.schedule.steps.size()) refuse(planned, call, "more steps");
    if (!slots_.covers(needed_)) refuse(planned, call, "other slots");
    if (planned.schedule.home != home_) refuse(planned, call, "other units always whole");
    planned.valid = true;
  }
  void check_size(const char* call, const Program& program) const {
    if (program.micro_steps == 0 || program.micro_steps > max_micro_steps_) {
      throw ContractError(std::string("zero: ") + call + ": the program has " +
                          std::to_string(program.micro_steps) + " micro-steps, expected 1 to " +
                          std::to_string(max_micro_steps_) +
                          "; raise ModuleOptions::max_micro_steps");
    }
    if (program.computes.size() > max_computes_) refuse_program(call, "more computes");
    if (uses(program) > max_uses_) refuse_program(call, "more uses of one unit");
  }
  [[noreturn]] void refuse(const Planned& planned, const char* call, const char* what) const {
    if (planned.own) refuse_program(call, what);
    throw ContractError("zero: the schedule for " + std::to_string(planned.program().micro_steps) +
                        " micro-steps needs " + what + " than those for 1, 2, 3 and " +
                        std::to_string(max_micro_steps_) +
                        "; let the policy treat all middle micro-steps alike");
  }
  [[noreturn]] static void refuse_program(const char* call, const char* what) {
    throw ContractError(std::string("zero: ") + call + ": the program needs " + what +
                        " than the module has reserved; list it in ModuleOptions::programs when "
                        "the module is made");
  }
  void build(Planned& planned, const char* call, const Program& program) {
    planned.check.read(call, program);
    try {
      maker_.make(planned.schedule, parameters_.shape(), program);
    } catch (const ShapeError& error) {
      throw ContractError(std::string(error.what()) + " (in " + call + ")");
    }
    prove(planned.schedule);
  }
  void prove(const Schedule& schedule) {
    const Finding found = verifier_.verify(schedule);
    if (found.rule == Rule::none) return;
    throw ContractError("zero: the schedule of this stage for " +
                        std::to_string(schedule.model.units()) + " units and " +
                        std::to_string(schedule.program.micro_steps) +
                        " micro-steps breaks a rule at step " + std::to_string(found.step) + ": " +
                        sentence(found.rule) + "; change the policy that adds this step");
  }

  const ParameterTable& parameters_;
  std::size_t max_micro_steps_, max_computes_ = 0, max_uses_ = 1, most_steps_ = 0;
  StageValue stage_;
  ScheduleMaker maker_;
  Verifier verifier_;
  List<Program> programs_;  // that memory is reserved for
  Program plain_;
  Planned training_, evaluation_;
  SlotSizes slots_, needed_;
  List<Index> home_;
};

}  // namespace zero::detail
