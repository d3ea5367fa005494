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
#include <zero/module/detail/decision.hpp>
#include <zero/module/detail/host_work.hpp>
#include <zero/module/detail/kept_state.hpp>
#include <zero/module/detail/on_device.hpp>
#include <zero/module/detail/optimizers.hpp>
#include <zero/module/detail/progress.hpp>
#include <zero/module/detail/rank_memory.hpp>
#include <zero/module/detail/runner.hpp>
#include <zero/module/detail/schedules.hpp>
#include <zero/schedule/execute.hpp>

namespace zero::detail {

/// Drives the schedules of a module. Knows nothing of the kinds of units.
template <class Optimizer, class Comm>
class Engine {
 public:
  using Buffers = zero::Buffers<Optimizer::states>;
  using Runner = detail::Runner<Optimizer, Comm>;
  using Device = OnDevice<typename Comm::Stream>;
  using Streams = typename Device::Streams;
  using Memory = RankMemory<Buffers, typename Device::Memory, typename Device::Staged>;
  using Kept = KeptState<Comm, Buffers, Streams>;
  static constexpr std::size_t states = Optimizer::states;

  Engine(const StageValue& stage, ParameterTable parameters, const Mesh<Comm>& mesh,
         Groups<Optimizer> optimizers, ModuleOptions options)
      : parameters_(std::move(parameters)),
        mesh_(mesh),
        optimizers_(std::move(optimizers), parameters_),
        options_(options),
        schedules_(stage, parameters_, options),
        control_shape_(detail::control_shape<Optimizer>(parameters_, mesh_, options_)),
        memory_(parameters_, schedules_, mesh_.shard.rank(), mesh_.replicate.rank(), control_shape_,
                options_),
        control_(memory_.buffers().control(), control_shape_, options_.loss_scale,
                 memory_.staged()),
        training_events_(schedules_.most_steps()),
        evaluation_events_(schedules_.most_steps()),
        streams_(options_),
        runner_(parameters_, mesh_, memory_.buffers(), control_, streams_, options_),
        training_(schedules_.training(), runner_),
        evaluation_(schedules_.evaluation(), runner_),
        progress_(parameters_, control_, schedules_),
        hashes_(mesh_.world.size()) {
    options_.programs = {};  // Schedules has them
    if (!Device::is_host) options_.user_code = UserCode::on_stream;
    // Bytes of ones are NaN in every type.
    streams_.fill_now(memory_.block(), options_.poison ? 0xFF : 0, memory_.arena().used());
    const std::span<std::byte> control = memory_.buffers().control();
    streams_.fill_now(control.data(), 0, control.size());
    list_ranges(control_, parameters_, mesh_.first_of_axes(), streams_);
    check_mesh(mesh_, stage.traits);
    compare_across_ranks(mesh_.world, schedules_.hash(options_.rounding_seed));
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() { streams_.settle(); }

  /// Begins a training step. Returns its number, by which it is recognised; see is_open.
  std::uint64_t begin_step(const StepOptions& options) {
    require_idle("begin_step");
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
    progress_.begin_step();
    return begin(Phase::training, schedules_.training(), training_events_);
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
    return begin(Phase::evaluation, schedules_.evaluation(), evaluation_events_);
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
    std::uint64_t settings = 0;
    std::exception_ptr no_settings;
    try {
      settings = optimizers_.settings(control_.step());
      optimizers_.set_coefficients(control_, parameters_,
                                   RandomBits{}.with(options_.rounding_seed));
    } catch (...) {  // of a function of the user's: all ranks skip the step
      no_settings = std::current_exception();
      control_.fail();
    }
    control_.finish(options.divisor == 0 ? ranks : options.divisor, options.max_norm, settings);
    broken_ = true;  // from the first update to the last, parameters are torn
    training_.finish();
    streams_[StreamId::reduce].synchronize();
    broken_ = control_.applied();
    streams_.check();  // work of the user's on a stream, or a function for the learning rate
    broken_ = false;
    phase_ = Phase::idle;
    if (no_settings) std::rethrow_exception(no_settings);
    check_decision(control_, parameters_, mesh_.world.rank());
    return {control_.applied(), control_.norm(), control_.step(), control_.used_scale()};
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
    streams_.settle();
    training_.restart();
    evaluation_.restart();
    runner_.forget_gathered();
    inside_ = nullptr;
    failure_ = nullptr;
    phase_ = Phase::idle;
    phase_of_events_ = Phase::idle;
  }
  void require_idle(const char* call) const {
    if (broken_) {
      throw ContractError(std::string("zero: ") + call +
                          ": an earlier step failed in the middle of its updates, so the "
                          "parameters are torn; load them again into a new module");
    }
    if (phase_ != Phase::idle) {
      throw ContractError(std::string("zero: ") + call +
                          " was called within a step; finish or abandon that first");
    }
  }
  /// Notes that the weights were exchanged with their average, or back.
  void note_exchange() { exchanged_ = !exchanged_; }
  void require_live(const char* call) const {
    if (exchanged_) throw_exchanged(call);
  }
  /// Waits until everything that was enqueued is done.
  void synchronize() { streams_.synchronize(); }

  const ParameterTable& parameters() const { return parameters_; }
  const Mesh<Comm>& mesh() const { return mesh_; }
  const Schedules& schedules() const { return schedules_; }
  const Groups<Optimizer>& optimizers() const { return optimizers_.groups(); }
  const ModuleOptions& options() const { return options_; }
  const Memory& memory() const { return memory_; }
  Buffers& buffers() { return memory_.buffers(); }
  Control& control() { return control_; }
  const ControlShape& control_shape() const { return control_shape_; }
  Streams& streams() { return streams_; }
  const Runner& runner() const { return runner_; }

 private:
  enum class Phase { idle, training, evaluation };

  const std::string& name(std::size_t unit) const { return parameters_.units()[unit].name; }
  void rethrow_failure() {
    if (failure_) std::rethrow_exception(failure_);
  }
  std::uint64_t begin(Phase phase, const Schedule& schedule,
                      std::span<typename Device::Event> events) {
    if (options_.record_spans) streams_.synchronize();  // the last execution still notes its spans
    runner_.begin(schedule, events);
    phase_ = phase_of_events_ = phase;
    place_ = 0;
    return ++number_;
  }
  /// Plans another schedule, and compares it across ranks where a program of the caller's comes or
  /// goes: a rank that plans nothing answers with another collective, an error on all.
  template <class Plan>
  void replan(const char* call, const Planned& planned, const Program* program, Plan plan) {
    const bool compares = planned.own || program != nullptr;
    if (compares) streams_.synchronize();
    phase_of_events_ = Phase::idle;
    plan();
    if (!compares) return;
    schedules_.drop(planned);  // until the ranks agree
    compare_programs(mesh_.world, call, parameters_, planned.schedule, hashes_);
    schedules_.keep(planned);
  }

  ParameterTable parameters_;
  Mesh<Comm> mesh_;
  Optimizers<Optimizer> optimizers_;
  ModuleOptions options_;
  Schedules schedules_;
  ControlShape control_shape_;
  Memory memory_;
  Control control_;
  std::vector<typename Device::Event> training_events_, evaluation_events_;
  Streams streams_;  // after what its queued work refers to: its destruction ends that work
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
  bool exchanged_ = false;  // the weights with their average
};

}  // namespace zero::detail
