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

/// All units in the order of a pass, for a range-based for loop; each is a UnitScope.
template <class Module>
class Pass {
 public:
  Pass(Module& module, Op op)
      : module_(module), op_(op), units_(module.parameters().units().size()) {}

  class Iterator {
   public:
    Iterator(const Pass& pass) : pass_(pass) {}
    UnitScope<Module> operator*() const {
      const bool backwards = pass_.op_ == Op::backward;
      return {pass_.module_, pass_.op_, backwards ? pass_.units_ - 1 - done_ : done_};
    }
    Iterator& operator++() {
      ++done_;
      return *this;
    }
    bool operator!=(std::default_sentinel_t) const { return done_ != pass_.units_; }

   private:
    const Pass& pass_;
    std::size_t done_ = 0;
  };
  Iterator begin() const { return {*this}; }
  std::default_sentinel_t end() const { return {}; }

 private:
  Module& module_;
  Op op_;
  std::size_t units_;
};

/// One training step: forward and backward passes of its micro-steps, then finish().
///
/// Order:   micro-steps follow one another; in each, units run forward in the order of the model,
/// then
///          backward in the opposite order. A unit may be left out of both. Anything else is a
///          ContractError, and the step is as before.
/// Errors:  left without finish() or by an exception, the step is abandoned: nothing stays gathered
/// and
///          no gradient counts.
template <class Module>
class [[nodiscard]] TrainingStep {
 public:
  TrainingStep(Module& module, const StepOptions& options)
      : module_(module), number_(module.engine_.begin_step(options.micro_steps)) {}
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;
  ~TrainingStep() { abandon(); }

  /// All units, forward: for (auto unit : step.forward()) { ... }
  Pass<Module> forward() { return {open("forward"), Op::forward}; }
  Pass<Module> backward() { return {open("backward"), Op::backward}; }
  /// One unit, from a loop of the user's own: { auto unit = step.forward(3); ... }
  UnitScope<Module> forward(std::size_t unit) { return {open("forward"), Op::forward, unit}; }
  UnitScope<Module> backward(std::size_t unit) { return {open("backward"), Op::backward, unit}; }

  /// What the loss of this step is multiplied with, so that gradients come out as much larger;
  /// finish() divides them by it. 1 unless ModuleOptions::loss_scale says otherwise.
  float loss_scale() {
    return static_cast<float>(open("loss_scale").engine_.control().loss_scale().scale);
  }

  /// Reduces what is left, decides, updates. Waits for the decision, not for the updates.
  ///
  /// Errors:  ContractError on every rank if ranks ran different units; nothing is updated then.
  ///          OverflowError on every rank if a gradient is not finite and the loss scale cannot be
  ///          smaller; nothing is changed then.
  StepResult finish(const FinishOptions& options = {}) {
    open("finish");
    try {
      return module_.engine_.finish(options);
    } catch (...) {
      abandon();
      throw;
    }
  }
  /// Forgets this step, as if it had never begun.
  void abandon() {
    if (module_.engine_.is_open(number_)) module_.engine_.abandon();
  }

 private:
  Module& open(const char* call) {
    if (module_.engine_.is_open(number_)) return module_;
    throw ContractError(
        std::string("zero: ") + call +
        " was called on a step that is over: it was finished, abandoned, or left by an "
        "exception; begin a new one");
  }
  Module& module_;
  std::uint64_t number_;
};

/// One forward pass over the current weights that changes nothing, between training steps.
template <class Module>
class [[nodiscard]] Evaluation {
 public:
  explicit Evaluation(Module& module)
      : module_(module), number_(module.engine_.begin_evaluation()) {}
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;
  ~Evaluation() {
    if (module_.engine_.is_open(number_)) module_.engine_.end_evaluation();
  }

  Pass<Module> forward() { return {module_, Op::forward}; }
  UnitScope<Module> forward(std::size_t unit) { return {module_, Op::forward, unit}; }

 private:
  Module& module_;
  std::uint64_t number_;
};

}  // namespace zero
