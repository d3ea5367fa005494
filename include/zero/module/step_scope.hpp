// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// TrainingStep and Evaluation: what a user's loop holds while it runs a step. May include module/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <zero/base/error.hpp>
#include <zero/module/unit_scope.hpp>

namespace zero {

/// Computes of the program that follow one another, for a range-based for loop; each is a
/// UnitScope. With an operation: the next ones that do it, within one micro-step. Without: all that
/// are left.
template <class Module>
class Pass {
 public:
  /// The computes of `op` that are still to come.
  Pass(Module& module, Op op) : module_(module), op_(op) {}

  /// Goes from unit to unit.
  class Iterator {
   public:
    /// At the first unit.
    explicit Iterator(const Pass& pass)
        : module_(pass.module_), op_(pass.op_), next_(first(pass.module_, pass.op_)) {}
    /// Enters the unit; it is left where the scope ends.
    UnitScope<Module> operator*() const { return {module_, next_->op, next_->unit}; }
    /// Goes to the next unit.
    Iterator& operator++() {
      const Compute* const after = module_.engine_->next_compute();
      const bool ends =
          after == nullptr ||
          (op_ != Op::none && (after->op != op_ || after->micro_step != next_->micro_step));
      next_ = ends ? nullptr : after;
      return *this;
    }
    /// Whether there are more units.
    bool operator!=(std::default_sentinel_t) const { return next_ != nullptr; }

   private:
    static const Compute* first(Module& module, Op op) {
      return op == Op::none ? module.engine_->next_compute() : &module.engine_->next_compute(op);
    }
    Module& module_;
    Op op_;
    const Compute* next_;
  };
  /// The first unit.
  Iterator begin() const { return Iterator(*this); }
  /// Behind the last.
  std::default_sentinel_t end() const { return {}; }

 private:
  Module& module_;
  Op op_;
};

/// One training step: forward and backward passes of its micro-steps, then finish().
///
/// Order:   that of StepOptions::program, or the usual one: micro-steps follow one another; in
/// each,
///          units run forward in the order of the model, then backward in the opposite order. A
///          unit may be left out of both. Anything else is a ContractError, and the step is as
///          before.
/// Errors:  left without finish() or by an exception, the step is abandoned: nothing stays gathered
/// and
///          no gradient counts.
template <class Module>
class [[nodiscard]] TrainingStep {
 public:
  /// Begins a step; see ShardedModule::begin_step.
  TrainingStep(Module& module, const StepOptions& options)
      : module_(module), number_(module.begin(options)) {}
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;
  ~TrainingStep() { abandon(); }

  /// The units that run forward next, those of one micro-step up to the next backward:
  /// for (auto unit : step.forward()) { ... }
  Pass<Module> forward() { return {open("forward"), Op::forward}; }
  /// The units in backward order, in a range-based for.
  Pass<Module> backward() { return {open("backward"), Op::backward}; }
  /// All that the program still has, forward and backward, of all micro-steps:
  /// for (auto unit : step.pass()) { unit.is_backward() ? ... : ...; }
  Pass<Module> pass() { return {open("pass"), Op::none}; }
  /// One unit, from a loop of the user's own: { auto unit = step.forward(3); ... }
  UnitScope<Module> forward(std::size_t unit) { return {open("forward"), Op::forward, unit}; }
  /// Enters one unit backward.
  UnitScope<Module> backward(std::size_t unit) { return {open("backward"), Op::backward, unit}; }

  /// What the loss of this step is multiplied with, so that gradients come out as much larger;
  /// finish() divides them by it. 1 unless ModuleOptions::loss_scale says otherwise.
  float loss_scale() {
    return static_cast<float>(open("loss_scale").engine_->control().loss_scale().scale);
  }

  /// Where a kernel reads it, as a double in device memory: for a step that is captured.
  const double* device_loss_scale() {
    return &open("device_loss_scale").engine_->control().live().record->scale.scale;
  }

  /// Reduces what is left, decides, updates. Waits for the decision, not for the updates.
  ///
  /// Errors:  ContractError on every rank if ranks ran different units; nothing is updated then.
  ///          OverflowError on every rank if a gradient is not finite and the loss scale cannot be
  ///          smaller; nothing is changed then.
  StepResult finish(const FinishOptions& options = {}) {
    finish_async(options);
    return module_.last_result();
  }
  /// The same without waiting: the host may begin the next step, whose finish waits for the
  /// decision of this one, as Module::last_result and all else do that need it. Its errors come
  /// there.
  ///
  /// Errors:  those of the step before, if it ended so too.
  void finish_async(const FinishOptions& options = {}) {
    open("finish");
    try {
      module_.engine_->finish(options);
    } catch (...) {
      abandon();
      throw;
    }
  }
  /// Forgets this step, as if it had never begun.
  void abandon() {
    if (module_.engine_->is_open(number_)) module_.engine_->abandon();
  }

 private:
  Module& open(const char* call) {
    if (module_.engine_->is_open(number_)) return module_;
    throw ContractError(
        std::string("zero: ") + call +
        " was called on a step that is over: it was finished, abandoned, or left by an "
        "exception; begin a new one");
  }
  Module& module_;
  std::uint64_t number_;
};

/// One forward pass over the current weights that changes nothing, between training steps. It may
/// end anywhere.
template <class Module>
class [[nodiscard]] Evaluation {
 public:
  /// Begins an evaluation; see ShardedModule::evaluate.
  Evaluation(Module& module, const EvaluationOptions& options)
      : module_(module), number_(module.engine_->begin_evaluation(options)) {}
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;
  ~Evaluation() {
    if (module_.engine_->is_open(number_)) module_.engine_->end_evaluation();
  }

  /// The units in forward order, in a range-based for.
  Pass<Module> forward() { return {module_, Op::forward}; }
  /// Enters one unit forward.
  UnitScope<Module> forward(std::size_t unit) { return {module_, Op::forward, unit}; }

 private:
  Module& module_;
  std::uint64_t number_;
};

}  // namespace zero
