// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Executor: issues the steps of a schedule. Includes schedule/ and base/ only.
#pragma once

#include <string>
#include <zero/base/error.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero {

/// What an executor needs. All members are called in issue order and need not wait for their work.
///
/// wait    makes a stream wait for the latest record of the event of a step
/// run     enqueues a step
/// pass    stands for run where the caller's loop passed a compute step over
/// record  records the event of a step
template <class B>
concept Backend = requires(B& backend, const Step& step, std::uint32_t step_index) {
  backend.wait(step.stream, step_index);
  backend.run(step);
  backend.pass(step);
  backend.record(step.stream, step_index);
};

/// Issues the steps of a schedule from within a loop that the caller owns: the caller names the
/// compute steps, and everything between them is issued without being asked for, as early as the
/// schedule allows. Whatever changes parameters or optimizer waits for finish().
///
/// Order:   enqueues only; does not synchronise. Does not allocate, except for an error's text.
/// Pre:     schedule and backend outlive the executor. Whoever changes the schedule, or runs
/// another
///          in between, orders all streams after what was issued and calls restart().
template <Backend B>
class Executor {
 public:
  /// Runs a schedule on a backend.
  Executor(const Schedule& schedule, B& backend) : schedule_(schedule), backend_(backend) {}

  /// One execution, for a backend that runs compute steps itself.
  void run() {
    restart_pass();
    while (position_ < schedule_.steps.size()) issue(next());
    end();
  }
  /// The compute step that enter would go to. Issues nothing; the same errors.
  const Step& peek(Op op, std::size_t unit) const { return schedule_.steps[find(op, unit)]; }
  /// The compute step that comes next, or null after the last one.
  const Step* next_compute() const {
    std::size_t i = position_;
    while (i < schedule_.steps.size() && !computes(schedule_.steps[i].op)) ++i;
    return i == schedule_.steps.size() ? nullptr : &schedule_.steps[i];
  }
  /// Issues all that comes before a compute step and orders the compute stream after what it needs.
  /// Compute steps before it are passed over.
  ///
  /// Errors:  ContractError if the compute does not come in the rest of the micro-steps that have
  ///          begun or in the one after them, or if the compute before was not left. Nothing is
  ///          issued then.
  const Step& enter(Op op, std::size_t unit) {
    const std::size_t target = find(op, unit);
    while (position_ < target) issue_or_pass(next());
    entered_ = true;
    if (furthest_ < next().micro_step) furthest_ = next().micro_step;
    wait(next());
    return next();
  }
  /// Ends the compute that was entered, and issues what follows up to the next compute or the
  /// commit point: the `combine` after which parameters change.
  void leave() {
    entered_ = false;
    record(next());
    ++position_;
    while (position_ < schedule_.steps.size()) {
      const Step& step = next();
      if (computes(step.op) || step.op == Op::combine) return;
      issue(step);
    }
  }
  /// Issues all that is left of this execution; computes among it are passed over.
  void finish() {
    if (entered_) refuse("finish was called");
    while (position_ < schedule_.steps.size()) issue_or_pass(next());
    end();
  }
  /// Forgets the position and all previous executions.
  void restart() {
    restart_pass();
    repeats_ = false;
  }
  /// The step that is issued next; in every error and hang report.
  std::size_t position() const { return position_; }

 private:
  const Step& next() const { return schedule_.steps[position_]; }
  std::size_t find(Op op, std::size_t unit) const {
    if (!entered_) {
      for (std::size_t i = position_; i < schedule_.steps.size(); ++i) {
        const Step& step = schedule_.steps[i];
        if (!computes(step.op)) continue;
        if (step.op == op && step.subject == unit) return i;
        // What follows lies in a micro-step that nothing leads to, or far ahead.
        if (step.micro_step > furthest_ + 1) break;
      }
    }
    refuse(std::string(info(op).name) + " of unit " + std::to_string(unit) + " was called");
  }
  [[noreturn]] void refuse(const std::string& what) const {
    std::string expected = "the end of the step";
    if (next_compute() != nullptr) {
      const Step& step = *next_compute();
      expected = std::string(entered_ ? "the end of " : "") + info(step.op).name + " of unit " +
                 std::to_string(step.subject) + " in micro-step " + std::to_string(step.micro_step);
    }
    throw ContractError("zero: " + what + " at position " + std::to_string(position_) +
                        " of the schedule, but " + expected +
                        " comes next; call units in the order of the program, or abandon the step");
  }
  void wait(const Step& step) {
    for (const std::uint32_t index : step.waits) {
      if (index == no_wait) continue;
      // In the first execution there is no previous one to wait for.
      if (index < position_ || repeats_) backend_.wait(step.stream, index);
    }
  }
  void record(const Step& step) {
    if (step.signals) backend_.record(step.stream, static_cast<std::uint32_t>(position_));
  }
  void issue(const Step& step) {
    wait(step);
    backend_.run(step);
    record(step);
    ++position_;
  }
  void issue_or_pass(const Step& step) {
    if (!computes(step.op)) return issue(step);
    wait(step);
    backend_.pass(step);
    record(step);
    ++position_;
  }
  void restart_pass() {
    position_ = 0;
    furthest_ = 0;
    entered_ = false;
  }
  void end() {
    restart_pass();
    repeats_ = true;
  }

  const Schedule& schedule_;
  B& backend_;
  std::size_t position_ = 0, furthest_ = 0;  // furthest_: the last micro-step that was entered
  bool entered_ = false, repeats_ = false;
};

}  // namespace zero
