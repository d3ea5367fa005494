// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What ran in the micro-step that is under way, and what of it has a gradient. May include module/.
#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/module/control.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/schedule/step.hpp>

namespace zero::detail {

/// Follows the user's loop through one training step and tells Control what ran.
class Progress {
 public:
  Progress(const ParameterTable& parameters, Control& control)
      : parameters_(parameters),
        control_(control),
        ran_(parameters.units().size()),
        excluded_(parameters.tensors().size()) {}

  void begin_step() {
    control_.begin_step();
    begin_micro_step(0);
    excluded_.assign(excluded_.size(), false);
  }
  void begin_micro_step(std::size_t micro_step) {
    micro_step_ = micro_step;
    begun_ = false;
    ran_.assign(ran_.size(), Ran{});
  }
  /// Notes that a compute step of this micro-step was entered.
  void enter() { begun_ = true; }
  /// Whether a forward was entered: a micro-step begins with one.
  bool has_begun() const { return begun_; }
  std::size_t micro_step() const { return micro_step_; }

  /// Says that the backward that was entered adds no gradient to one tensor, or to any.
  void exclude(std::size_t tensor) { excluded_[tensor] = true; }
  void exclude_all(std::size_t unit) {
    for_each_tensor(unit, [&](std::size_t tensor) { excluded_[tensor] = true; });
  }
  /// Notes the end of a compute step; `skipped`: the user's code did not run it after all.
  void leave(const Step& step, bool skipped) {
    const bool backward = step.op == Op::backward;
    if (backward) {
      for_each_tensor(step.subject, [&](std::size_t tensor) {
        if (!std::exchange(excluded_[tensor], false) && !skipped) control_.has_gradient(tensor);
      });
    }
    if (skipped) return;
    control_.ran(step.subject, step.op, step.micro_step);
    (backward ? ran_[step.subject].backward : ran_[step.subject].forward) = true;
  }
  /// Every unit with a gradient has run forward and backward, or neither, before next() comes.
  template <class Next>
  void check_micro_step(Next next) const {
    const auto where = [&] {
      return "zero: " + next() + " came, but in micro-step " + std::to_string(micro_step_);
    };
    bool any = false;
    for (std::size_t u = 0; u < ran_.size(); ++u) {
      any = any || ran_[u].forward;
      if (ran_[u].forward == ran_[u].backward || !trains(u)) continue;
      throw ContractError(
          where() + " unit '" + parameters_.units()[u].name + "' ran " +
          (ran_[u].forward ? "forward but not backward" : "backward but not forward") +
          "; run units in the order of the model, each in both passes, or skip() both");
    }
    if (any) return;
    throw ContractError(where() +
                        " no unit ran forward; begin a step with as many micro-steps as it has");
  }

 private:
  struct Ran {  // in this micro-step
    bool forward = false, backward = false;
  };

  template <class F>
  void for_each_tensor(std::size_t unit, F f) const {
    for (const std::size_t u : parameters_.units()[unit].reads) {
      const UnitInfo& info = parameters_.units()[u];
      for (std::size_t t = 0; t < info.tensor_count; ++t) f(info.first_tensor + t);
    }
  }
  bool trains(std::size_t unit) const {
    for (const Index g : parameters_.shape().unit(unit)) {
      if (!parameters_.groups()[g].frozen) return true;
    }
    return false;
  }

  const ParameterTable& parameters_;
  Control& control_;
  std::vector<Ran> ran_;        // [unit]
  std::vector<char> excluded_;  // [tensor] gets no gradient from the backward that was entered
  std::size_t micro_step_ = 0;
  bool begun_ = false;
};

}  // namespace zero::detail
