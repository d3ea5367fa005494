// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The state of a module between and within steps: which schedule runs and how far it is. May
// include anything below module/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>
#include <zero/module/detail/checks.hpp>
#include <zero/module/detail/progress.hpp>
#include <zero/module/detail/rank_memory.hpp>
#include <zero/module/detail/runner.hpp>
#include <zero/module/detail/schedules.hpp>
#include <zero/schedule/execute.hpp>

namespace zero::detail {

/// Drives the schedules of a module. Knows units by number and nothing of their kinds.
template <class Optimizer, class Comm>
class Engine {
 public:
  using Buffers = zero::Buffers<Optimizer::states>;
  using Runner = detail::Runner<Optimizer, Comm>;

  Engine(const StageValue& stage, ParameterTable parameters, const Mesh<Comm>& mesh,
         Optimizer optimizer, ModuleOptions options)
      : parameters_(std::move(parameters)),
        mesh_(mesh),
        optimizer_(std::move(optimizer)),
        options_(options),
        schedules_(stage, parameters_, options),
        memory_(parameters_, schedules_, mesh_.shard.rank(), mesh_.replicate.rank(),
                mesh_.world.size(), options_),
        control_(memory_.buffers().control_block(), memory_.buffers().norms(),
                 parameters_.units().size(), parameters_.tensors().size()),
        training_events_(schedules_.most_steps()),
        evaluation_events_(schedules_.most_steps()),
        streams_(options_),
        runner_(parameters_, mesh_, memory_.buffers(), control_, streams_, optimizer_, options_),
        training_(schedules_.training(), runner_),
        evaluation_(schedules_.evaluation(), runner_),
        progress_(parameters_, control_, schedules_),
        hashes_(mesh_.world.size()) {
    options_.programs = {};  // Schedules has them
    check_mesh(mesh_, stage.traits);
    compare_across_ranks(mesh_.world, schedules_.hash(options_.rounding_seed));
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() { settle(); }

  /// Begins a training step. Returns its number, by which it is recognised; see is_open.
  std::uint64_t begin_step(const StepOptions& options) {
    require_idle("begin_step");
    const std::size_t micro_steps = options.micro_steps;
    const bool counts = options.program == nullptr;
    if (counts && (micro_steps == 0 || micro_steps > schedules_.max_micro_steps())) {
      throw ContractError("zero: begin_step: expected 1 to " +
                          std::to_string(schedules_.max_micro_steps()) + " micro-steps, got " +
                          std::to_string(micro_steps) +
                          (micro_steps == 0 ? "; a step has at least one"
                                            : "; raise ModuleOptions::max_micro_steps"));
    }
    if (!schedules_.is_training(options.program, micro_steps)) {
      replan("begin_step", schedules_.planned_training(), options.program,
             [&] { schedules_.plan_training(options.program, micro_steps); });
      training_.restart();
    } else if (phase_of_events_ != Phase::training) {
      fence();
      training_.restart();
    }
    progress_.begin_step();
    return begin(Phase::training, schedules_.training(), training_events_);
  }
  /// Begins a forward pass that changes nothing.
  std::uint64_t begin_evaluation(const EvaluationOptions& options) {
    require_idle("evaluate");
    if (!schedules_.is_evaluation(options.program)) {
      replan("evaluate", schedules_.planned_evaluation(), options.program,
             [&] { schedules_.plan_evaluation(options.program); });
      evaluation_.restart();
    } else if (phase_of_events_ != Phase::evaluation) {
      fence();
      evaluation_.restart();
    }
    return begin(Phase::evaluation, schedules_.evaluation(), evaluation_events_);
  }
  /// Whether the step or evaluation of this number is neither finished nor abandoned.
  bool is_open(std::uint64_t number) const { return phase_ != Phase::idle && number == number_; }

  /// The compute that comes next in the program, or null if none is left.
  const Compute* next_compute() const {
    const std::vector<Compute>& computes = planned().program().computes;
    return phase_ != Phase::idle && place_ < computes.size() ? &computes[place_] : nullptr;
  }
  /// The next compute that does `op`.
  ///
  /// Errors:  ContractError if there is none any more.
  const Compute& next_compute(Op op) const {
    const std::vector<Compute>& computes = planned().program().computes;
    for (std::size_t place = place_; place < computes.size(); ++place) {
      if (computes[place].op == op) return computes[place];
    }
    throw ContractError(std::string("zero: ") + info(op).name +
                        " was called, but the program of this step has none any more; call finish");
  }
  /// Whether the compute at a place of the program is a forward that ran already.
  bool recomputes(std::size_t place) const { return planned().check.recomputes(place); }
  std::size_t use(std::size_t place) const { return planned().program().computes[place].use; }
  /// Where in the program the unit is whose scope is open.
  std::size_t inside_place() const { return place_ - 1; }

  /// Makes a unit ready to compute; computes before it that were not entered do not run.
  const Step& enter(Op op, std::size_t unit) {
    const std::size_t units = parameters_.units().size();
    if (unit >= units) {
      throw ContractError("zero: unit " + std::to_string(unit) +
                          " was entered, but the model has " + std::to_string(units) + " units");
    }
    if (phase_ == Phase::idle) {
      throw ContractError("zero: unit '" + name(unit) +
                          "' was used outside a step; call begin_step");
    }
    if (inside_) {
      throw ContractError("zero: unit '" + name(unit) + "' was entered while unit '" +
                          name(inside_->subject) + "' is in use; end its scope first");
    }
    rethrow_failure();
    streams_.check();  // what failed must not be computed with
    Executor<Runner>& executor = phase_ == Phase::training ? training_ : evaluation_;
    std::size_t place = place_;
    try {
      const Step* const target = &executor.peek(op, unit);
      const Step* const steps = planned().schedule.steps.data();
      for (const Step* s = steps + executor.position(); s != target; ++s) place += computes(s->op);
      if (phase_ == Phase::training) progress_.enter(place_, place);
    } catch (const ContractError& error) {  // nothing was issued: the step is as before
      throw ContractError(error.what() + (" (unit " + std::to_string(unit)) + " is '" + name(unit) +
                          "')");
    }
    place_ = place + 1;
    const Step& step = executor.enter(op, unit);
    runner_.prepare(step);
    if (options_.user_code == UserCode::on_caller) {
      streams_[StreamId::compute].synchronize();
      streams_.check();
    }
    inside_ = &step;
    return step;
  }
  /// Ends the use of a unit. `skipped`: the user's code did not run it after all. An error is kept
  /// for the next call, since this one comes from a destructor.
  void leave(const Step& step, bool skipped) noexcept {
    if (inside_ != &step) return;  // abandoned within the scope
    inside_ = nullptr;
    try {
      runner_.note_end(step);
      if (phase_ == Phase::training) progress_.leave(inside_place(), skipped);
      phase_ == Phase::training ? training_.leave() : evaluation_.leave();
    } catch (...) { failure_ = std::current_exception(); }
  }
  /// A scope's step must be the one that is open: it may have been abandoned within the scope.
  void require_inside(const Step& step, const char* call) const {
    if (inside_ == &step) return;
    throw ContractError(std::string("zero: ") + call +
                        " was called on a unit whose step was abandoned; begin a new step");
  }
  Progress& progress() { return progress_; }

  StepResult finish(const FinishOptions& options) {
    if (phase_ != Phase::training || inside_) {
      throw ContractError("zero: finish was called " +
                          (inside_ ? "while unit '" + name(inside_->subject) + "' is in use"
                                   : std::string("outside a step")) +
                          "; call it once at the end of a step");
    }
    rethrow_failure();
    progress_.check_end(place_);
    const double ranks = static_cast<double>(mesh_.world.size());
    control_.finish(options.divisor == 0 ? ranks : options.divisor, options.max_norm);
    broken_ = true;  // from the first update to the last, parameters are torn
    training_.finish();
    streams_[StreamId::reduce].synchronize();
    broken_ = control_.applied();
    streams_.check();  // work of the user's on a stream, or a function for the learning rate
    broken_ = false;
    phase_ = Phase::idle;
    if (!control_.agreed()) throw_disagreement();
    return {control_.applied(), control_.norm(), control_.step()};
  }
  /// Ends an evaluation: all of it ran, or it is abandoned.
  void end_evaluation() noexcept {
    if (phase_ != Phase::evaluation) return;
    const bool complete = evaluation_.position() == schedules_.evaluation().steps.size();
    if (failure_ || inside_ || !complete) return abandon();
    evaluation_.finish();  // has nothing left to issue
    phase_ = Phase::idle;
  }

  /// Forgets the step that was begun: nothing stays gathered, no gradient counts. Ranks that
  /// abandon at the same unit can begin anew; the others' next collective reports the difference.
  void abandon() noexcept {
    settle();
    training_.restart();
    evaluation_.restart();
    runner_.forget_gathered();
    inside_ = nullptr;
    failure_ = nullptr;
    phase_ = Phase::idle;
    phase_of_events_ = Phase::idle;
  }
  void require_idle(const char* call) const {
    if (broken_ || runner_.update_failed()) {
      throw ContractError(std::string("zero: ") + call +
                          ": an earlier step failed in the middle of its updates, so the "
                          "parameters are torn; load them again into a new module");
    }
    if (phase_ != Phase::idle) {
      throw ContractError(std::string("zero: ") + call +
                          " was called within a step; finish or abandon that first");
    }
  }
  /// Waits until everything that was enqueued is done.
  void synchronize() { streams_.synchronize(); }

  const ParameterTable& parameters() const { return parameters_; }
  const Mesh<Comm>& mesh() const { return mesh_; }
  const Schedules& schedules() const { return schedules_; }
  const Optimizer& optimizer() const { return optimizer_; }
  const ModuleOptions& options() const { return options_; }
  const RankMemory<Buffers>& memory() const { return memory_; }
  Buffers& buffers() { return memory_.buffers(); }
  Control& control() { return control_; }
  HostStreams& streams() { return streams_; }
  const Runner& runner() const { return runner_; }

 private:
  enum class Phase { idle, training, evaluation };

  const std::string& name(std::size_t unit) const { return parameters_.units()[unit].name; }
  void rethrow_failure() {
    if (failure_) std::rethrow_exception(failure_);
  }
  std::uint64_t begin(Phase phase, const Schedule& schedule, std::span<HostEvent> events) {
    if (options_.record_spans) streams_.synchronize();  // the last execution still notes its spans
    runner_.begin(schedule, events);
    phase_ = phase_of_events_ = phase;
    place_ = 0;
    return ++number_;
  }
  const Planned& planned() const {
    return phase_ == Phase::evaluation ? schedules_.planned_evaluation()
                                       : schedules_.planned_training();
  }
  /// Plans another schedule. Where programs of the caller's come or go, the ranks compare what they
  /// plan: a collective, which the ranks that plan nothing answer with another one, an error on
  /// all.
  template <class Plan>
  void replan(const char* call, const Planned& planned, const Program* program, Plan plan) {
    const bool compares = planned.own || program != nullptr;
    if (compares) {
      streams_.synchronize();
    } else {
      fence();
    }
    phase_of_events_ = Phase::idle;
    plan();
    if (!compares) return;
    try {
      compare_programs(mesh_.world, call, parameters_, planned.schedule, hashes_);
    } catch (...) {
      schedules_.drop(planned);
      throw;
    }
  }
  [[noreturn]] void throw_disagreement() const {
    if (control_.options_differ()) {
      throw ContractError(
          "zero: finish: the ranks passed different FinishOptions, or are at different "
          "steps after set_step; nothing was updated. Pass the same on all ranks "
          "(this is rank " +
          std::to_string(mesh_.world.rank()) + ")");
    }
    throw ContractError(
        "zero: finish: some ranks ran unit '" + name(control_.disagreeing_unit()) + "' " +
        info(control_.disagreeing_op()).name +
        " in other micro-steps of this step than other ranks did; nothing was updated. "
        "Run the same units on all ranks; a unit whose gradient is zero on one rank "
        "still runs there (this is rank " +
        std::to_string(mesh_.world.rank()) + ")");
  }
  /// Orders everything that comes after everything that was enqueued, without waiting on the host.
  void fence() {
    for (std::size_t s = 0; s < stream_count; ++s) {
      streams_[static_cast<StreamId>(s)].record(fence_events_[s]);
    }
    for (std::size_t s = 0; s < stream_count; ++s) {
      for (HostEvent& event : fence_events_) streams_[static_cast<StreamId>(s)].wait(event);
    }
  }
  void settle() noexcept {
    try {
      streams_.synchronize();
    } catch (...) {  // the error was or will be reported where work is enqueued or waited for
    }
  }

  ParameterTable parameters_;
  Mesh<Comm> mesh_;
  Optimizer optimizer_;
  ModuleOptions options_;
  Schedules schedules_;
  RankMemory<Buffers> memory_;
  Control control_;
  std::vector<HostEvent> training_events_, evaluation_events_;
  HostEvent fence_events_[stream_count];
  HostStreams streams_;  // after what its queued work refers to: its destruction ends that work
  Runner runner_;
  Executor<Runner> training_, evaluation_;
  Progress progress_;
  std::vector<std::uint64_t> hashes_;  // of the ranks, when they compare programs
  std::size_t place_ = 0;              // in the program, of the compute that comes next
  std::uint64_t number_ = 0;           // of the step or evaluation that was begun last
  Phase phase_ = Phase::idle, phase_of_events_ = Phase::idle;
  const Step* inside_ = nullptr;  // the compute step whose scope is open
  std::exception_ptr failure_;    // of a scope's end
  bool broken_ = false;
};

}  // namespace zero::detail
