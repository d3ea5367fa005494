// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What ran in the step that is under way, and what of it has a gradient. May include module/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/module/control.hpp>
#include <zero/module/detail/schedules.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/schedule/step.hpp>

namespace zero::detail {

/// Follows the user's loop through the program of one training step and tells Control what ran.
///
/// A unit with a gradient runs forward and backward, or neither, in each use of each micro-step.
class Progress {
 public:
  Progress(const ParameterTable& parameters, Control& control, const Schedules& schedules)
      : parameters_(parameters),
        control_(control),
        planned_(schedules.planned_training()),
        excluded_(parameters.tensors().size()) {
    ran_.reserve(schedules.max_keys());
    micro_steps_.reserve(schedules.max_micro_steps());
  }

  void begin_step() {
    control_.begin_step();
    ran_.assign(planned_.check.keys(), Ran::no);
    micro_steps_.assign(program().micro_steps, MicroStep{});
    excluded_.assign(excluded_.size(), false);
    wrong_ = nullptr;
  }
  /// The computes from `from` up to `to` are passed over, since the loop enters the one at `to`.
  ///
  /// Errors:  ContractError if that is no use of a step; then nothing has changed.
  void enter(std::size_t from, std::size_t to) {
    const Compute& compute = program().computes[to];
    const auto call = [&] { return text_of(parameters_, compute) + " came"; };
    if (from != to) check_gap(from, to, call);
    MicroStep& micro_step = micro_steps_[compute.micro_step];
    if (compute.op == Op::backward && !micro_step.begun) {
      throw ContractError("zero: " + call() + " before any forward; run units forward first");
    }
    micro_step.begun = true;
  }

  /// Says that the backward that was entered adds no gradient to one tensor, or to any.
  void exclude(std::size_t tensor) { excluded_[tensor] = true; }
  void exclude_all(std::size_t unit) {
    for_each_tensor(unit, [&](std::size_t tensor) { excluded_[tensor] = true; });
  }
  /// Notes the end of a compute; `skipped`: the user's code did not run it after all.
  void leave(std::size_t place, bool skipped) {
    const Compute& compute = program().computes[place];
    Ran& ran = ran_[planned_.check.key(compute)];
    if (compute.op == Op::backward) {
      for_each_tensor(compute.unit, [&](std::size_t tensor) {
        const bool none = std::exchange(excluded_[tensor], false) || skipped;
        if (!none && !parameters_.tensors()[tensor].frozen) control_.has_gradient(tensor);
      });
      const bool differs = skipped == (ran == Ran::forward);
      if (differs && wrong_ == nullptr && trains(compute.unit)) wrong_ = &compute;
      ran = skipped ? Ran::no : Ran::both;
    } else if (!planned_.check.recomputes(place)) {
      ran = skipped ? Ran::no : Ran::forward;
      if (!skipped) micro_steps_[compute.micro_step].ran = true;
    } else {
      return;
    }
    if (!skipped) control_.ran(compute.unit, compute.op, compute.micro_step);
  }
  /// Whether the step may end when the computes from `from` on are passed over.
  void check_end(std::size_t from) const {
    const auto call = [] { return std::string("finish came"); };
    check_gap(from, program().computes.size(), call);
    if (wrong_ != nullptr) refuse(call, *wrong_, ran_[planned_.check.key(*wrong_)] == Ran::no);
    const auto begun = std::count_if(micro_steps_.begin(), micro_steps_.end(),
                                     [](const MicroStep& m) { return m.begun; });
    if (begun != 0 && static_cast<std::size_t>(begun) != micro_steps_.size()) {
      throw ContractError("zero: finish: this step was begun with " +
                          std::to_string(micro_steps_.size()) + " micro-steps, but only " +
                          std::to_string(begun) + " ran");
    }
    for (std::size_t m = 0; m < micro_steps_.size(); ++m) {
      if (micro_steps_[m].ran) continue;
      throw ContractError("zero: finish came, but in micro-step " + std::to_string(m) +
                          " no unit ran forward; begin a step with as many micro-steps as it has");
    }
  }

 private:
  enum class Ran : std::uint8_t { no, forward, both };
  struct MicroStep {
    bool begun = false, ran = false;  // a compute was entered; a unit ran forward
  };

  const Program& program() const { return planned_.program(); }
  /// A backward is not passed over whose forward ran.
  template <class Call>
  void check_gap(std::size_t from, std::size_t to, Call call) const {
    for (std::size_t place = from; place < to; ++place) {
      const Compute& passed = program().computes[place];
      if (passed.op != Op::backward || !trains(passed.unit)) continue;
      if (ran_[planned_.check.key(passed)] == Ran::forward) refuse(call, passed, true);
    }
  }
  template <class Call>
  [[noreturn]] void refuse(Call call, const Compute& compute, bool forward) const {
    throw ContractError(
        "zero: " + call() + ", but in micro-step " + std::to_string(compute.micro_step) +
        " unit '" + parameters_.units()[compute.unit].name + "' ran " +
        (forward ? "forward but not backward" : "backward but not forward") +
        "; run units in the order of the program, each in both passes, or skip() both");
  }
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
  const Planned& planned_;
  List<Ran> ran_;                   // [ProgramCheck::key]
  List<MicroStep> micro_steps_;     // of this step
  List<char> excluded_;             // [tensor] gets no gradient from the backward entered
  const Compute* wrong_ = nullptr;  // the first backward that differs from its forward
};

}  // namespace zero::detail
