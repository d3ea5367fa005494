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
#include <zero/base/list.hpp>
#include <zero/module/detail/checks.hpp>
#include <zero/module/detail/engine_parts.hpp>
#include <zero/module/detail/forks.hpp>
#include <zero/module/detail/progress.hpp>
#include <zero/module/detail/step_end.hpp>
#include <zero/schedule/execute.hpp>

namespace zero::detail {

/// Drives the schedules of a module. Knows nothing of the kinds of units.
template <class Optimizer, class Comm>
class Engine : public EngineParts<Optimizer, Comm> {
  using Parts = EngineParts<Optimizer, Comm>;
  using Parts::control_, Parts::mesh_, Parts::name, Parts::options_, Parts::parameters_,
      Parts::runner_, Parts::schedules_, Parts::streams_, Parts::tell_finish;

 public:
  using typename Parts::Device;
  using typename Parts::Runner;

  Engine(const StageValue& stage, ParameterTable parameters, const Mesh<Comm>& mesh,
         Groups<Optimizer> optimizers, const ModuleOptions& options)
      : Parts(stage, std::move(parameters), mesh, std::move(optimizers), options),
        training_(schedules_.training(), runner_),
        evaluation_(schedules_.evaluation(), runner_),
        progress_(parameters_, control_, schedules_),
        hashes_(mesh_.world.size()),
        end_(control_, parameters_, streams_, this->store_, mesh_.world.rank()) {}

  /// Begins a training step. Returns its number, by which it is recognised; see is_open.
  std::uint64_t begin_step(const StepOptions& options) {
    check_idle("begin_step");
    require_live("begin_step");
    const std::size_t micro_steps = options.micro_steps;
    if (!schedules_.is_training(options.program, micro_steps)) {
      replan("begin_step", schedules_.planned_training(), options.program,
             [&] { schedules_.plan_training(options.program, micro_steps); });
    }
    if (phase_of_events_ != Phase::training) {
      streams_.fence();
      training_.restart();
    }
    this->at_rest_.leave();
    progress_.begin_step();
    return begin(Phase::training, schedules_.training(), this->training_events_);
  }
  /// Begins a forward pass that changes nothing.
  std::uint64_t begin_evaluation(const EvaluationOptions& options) {
    require_idle("evaluate");
    if (!schedules_.is_evaluation(options.program)) {
      replan("evaluate", schedules_.planned_evaluation(), options.program,
             [&] { schedules_.plan_evaluation(options.program); });
    }
    if (phase_of_events_ != Phase::evaluation) {
      streams_.fence();
      evaluation_.restart();
    }
    return begin(Phase::evaluation, schedules_.evaluation(), this->evaluation_events_);
  }
  /// Whether the step or evaluation of this number is neither finished nor abandoned.
  bool is_open(std::uint64_t number) const { return phase_ != Phase::idle && number == number_; }

  /// The compute that comes next in the program, or null if none is left.
  const Compute* next_compute() const {
    return phase_ == Phase::idle ? nullptr : planned().next(place_);
  }
  /// The next compute that does `op`; ContractError if there is none any more.
  const Compute& next_compute(Op op) const { return planned().next(place_, op); }
  /// Where in the program the unit is whose scope is open.
  std::size_t inside_place() const { return place_ - 1; }
  /// What is planned for the step or evaluation that is open.
  const Planned& planned() const {
    return phase_ == Phase::evaluation ? schedules_.planned_evaluation()
                                       : schedules_.planned_training();
  }

  /// Makes a unit ready to compute; computes before it that were not entered do not run.
  const Step& enter(Op op, std::size_t unit) {
    check_entry(parameters_, unit, phase_ == Phase::idle, inside_);
    rethrow_failure();
    end_.check_streams();  // what failed must not be computed with
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
    if (options_.profile) streams_.push_range(name(unit).c_str());
    inside_ = &step;
    return step;
  }
  /// Ends the use of a unit. `skipped`: the user's code did not run it after all. An error is kept
  /// for the next call, since this one comes from a destructor.
  void leave(const Step& step, bool skipped) noexcept {
    if (inside_ != &step) return;  // abandoned within the scope
    inside_ = nullptr;
    if (options_.profile) streams_.pop_range();
    try {
      forks_.join(streams_);
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
  /// The unit whose scope is open computes on a stream of the user's too.
  template <class Other>
  void fork(Other other) {
    forks_.fork(streams_, other, name(inside_->subject));
  }

  /// Enqueues the end of a step; its result comes from read_result().
  void finish(const FinishOptions& options) {
    if (phase_ != Phase::training || inside_) {
      throw ContractError("zero: finish was called " +
                          (inside_ ? "while unit '" + name(inside_->subject) + "' is in use"
                                   : std::string("outside a step")) +
                          "; call it once at the end of a step");
    }
    rethrow_failure();
    progress_.check_end(place_);
    (void)read_result();
    const std::exception_ptr error = tell_finish(options);
    if (streams_.capturing()) {  // runs later
      training_.finish();
      phase_ = Phase::idle;
      return;
    }
    end_.begin();
    training_.finish();
    end_.enqueued(StreamId::reduce, error);
    phase_ = Phase::idle;
  }
  /// What came of the step that was finished last. Waits for its decision, not for its updates.
  ///
  /// Errors:  what is wrong with that step, once. A step that was begun since is abandoned.
  StepResult read_result() {
    try {
      return end_.read();
    } catch (...) {
      abandon();
      throw;
    }
  }
  /// Control, when it knows of all steps that were finished.
  Control& control() {
    (void)read_result();
    return control_;
  }
  /// Waits until everything that was enqueued is done.
  ///
  /// Errors:  as of read_result, and those of streams.
  void synchronize() {
    (void)read_result();
    streams_.synchronize();
  }
  /// Goes on after another engine: steps that were begun there stay over.
  void go_on_after(Engine& other) {
    end_.take(other.read_result());
    number_ = other.number_;
  }
  /// Between these two, nothing runs; what is enqueued becomes a graph. On a CUDA device.
  void begin_capture() {
    require_idle("capture");
    this->at_rest_.leave();  // now, not each time that the graph runs
    streams_.begin_capture();
    phase_of_events_ = Phase::idle;
  }
  auto end_capture() {
    phase_of_events_ = Phase::idle;
    return streams_.end_capture();
  }
  /// Runs a step that was captured, when the user's code had left these notes.
  template <class Graph>
  void run_captured(Graph& graph, const StepNotes& notes, const FinishOptions& options) {
    require_idle("run");
    require_live("run");
    if (this->at_rest_.leave() || phase_of_events_ != Phase::idle) streams_.fence();
    phase_of_events_ = Phase::idle;
    control_.begin_step();
    control_.set_notes(notes);
    const std::exception_ptr error = tell_finish(options);
    end_.begin();
    graph.launch(streams_[StreamId::compute]);
    end_.enqueued(StreamId::compute, error);
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
    forks_.settle(streams_);
    end_.settle();
    streams_.settle();
    training_.restart();
    evaluation_.restart();
    runner_.forget_gathered();
    inside_ = nullptr;
    failure_ = nullptr;
    phase_ = Phase::idle;
    phase_of_events_ = Phase::idle;
  }
  /// No step may be open; reads the result of the one before.
  void require_idle(const char* call) {
    (void)read_result();
    check_idle(call);
  }
  /// Notes that the weights were exchanged with their average, or back.
  void note_exchange() { exchanged_ = !exchanged_; }
  void require_live(const char* call) const {
    if (exchanged_) throw_exchanged(call);
  }

 private:
  enum class Phase { idle, training, evaluation };

  void check_idle(const char* call) const {
    end_.require_whole(call);
    if (phase_ != Phase::idle) {
      throw ContractError(std::string("zero: ") + call +
                          " was called within a step; finish or abandon that first");
    }
  }
  void rethrow_failure() {
    if (failure_) std::rethrow_exception(failure_);
  }
  std::uint64_t begin(Phase phase, const Schedule& schedule,
                      std::span<typename Device::Event> events) {
    if (options_.record_spans) synchronize();  // the last execution still notes its spans
    runner_.begin(schedule, events, end_.another_begins());
    phase_ = phase_of_events_ = phase;
    place_ = 0;
    return ++number_;
  }
  /// Plans another schedule, and compares it across ranks where a program of the caller's comes or
  /// goes: a rank that plans nothing answers with another collective, an error on all.
  template <class Plan>
  void replan(const char* call, const Planned& planned, const Program* program, Plan plan) {
    const bool compares = planned.own || program != nullptr;
    if (compares) synchronize();
    phase_of_events_ = Phase::idle;
    plan();
    if (!compares) return;
    schedules_.drop(planned);  // until the ranks agree
    compare_programs(mesh_.world, call, parameters_, planned.schedule, hashes_);
    schedules_.keep(planned);
  }

  Executor<Runner> training_, evaluation_;
  Progress progress_;
  List<std::uint64_t> hashes_;  // of the ranks, when they compare programs
  StepEnd<Device> end_;
  std::size_t place_ = 0;     // in the program, of the compute that comes next
  std::uint64_t number_ = 0;  // of the step or evaluation that was begun last
  Phase phase_ = Phase::idle, phase_of_events_ = Phase::idle;
  const Step* inside_ = nullptr;  // the compute step whose scope is open
  Forks<typename Parts::Streams> forks_{};
  std::exception_ptr failure_;  // of a scope's end
  bool exchanged_ = false;      // the weights with their average
};

}  // namespace zero::detail
