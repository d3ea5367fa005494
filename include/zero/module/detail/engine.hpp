// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The state of a module between and within steps: which schedule runs and how far it is. May include anything below module/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <zero/module/detail/rank_memory.hpp>
#include <zero/module/detail/runner.hpp>
#include <zero/module/detail/schedules.hpp>
#include <zero/schedule/execute.hpp>

namespace zero::detail {

/// Drives the schedules of a module. Knows units by number and nothing of their kinds.
template <class StageType, class Optimizer, class Comm, class T>
class Engine {
 public:
  using Buffers = zero::Buffers<T, Optimizer::states>;
  using Runner = detail::Runner<Optimizer, Comm, T>;

  Engine(ParameterTable parameters, const Mesh<Comm>& mesh, Optimizer optimizer, ModuleOptions options)
      : parameters_(std::move(parameters)), mesh_(mesh), optimizer_(std::move(optimizer)),
        options_(options), schedules_(parameters_, options_.max_micro_steps),
        memory_(parameters_, schedules_, mesh_.shard.rank(), mesh_.world.size(), options_.memory),
        control_(memory_.buffers().control_block(), memory_.buffers().norms(),
                 parameters_.units().size(), parameters_.tensors().size()),
        training_events_(schedules_.most_steps()),
        evaluation_events_(schedules_.evaluation().steps.size()), streams_(options_),
        runner_(parameters_, mesh_, memory_.buffers(), control_, streams_, optimizer_, options_),
        training_(schedules_.training(), runner_), evaluation_(schedules_.evaluation(), runner_),
        ran_(parameters_.units().size()), excluded_(parameters_.tensors().size()) {
    compare_schedules();
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() { settle(); }

  /// Begins a training step.
  void begin_step(std::size_t micro_steps) {
    require_idle("begin_step");
    if (micro_steps == 0 || micro_steps > schedules_.max_micro_steps()) {
      throw ContractError("zero: begin_step: expected 1 to " +
                          std::to_string(schedules_.max_micro_steps()) + " micro-steps, got " +
                          std::to_string(micro_steps) +
                          "; raise ModuleOptions::max_micro_steps to allow more");
    }
    if (phase_of_events_ != Phase::training || micro_steps != schedules_.micro_steps()) {
      fence();
      if (micro_steps != schedules_.micro_steps()) schedules_.set_micro_steps(micro_steps);
      training_.restart();
    }
    control_.begin_step();
    runner_.begin(schedules_.training(), training_events_);
    begin(Phase::training);
  }
  /// Begins a forward pass that changes nothing.
  void begin_evaluation() {
    require_idle("evaluate");
    if (phase_of_events_ != Phase::evaluation) {
      fence();
      evaluation_.restart();
    }
    runner_.begin(schedules_.evaluation(), evaluation_events_);
    begin(Phase::evaluation);
  }

  /// Makes a unit ready to compute; units before it in the micro-step that were not entered do not run.
  const Step& enter(Op op, std::size_t unit) {
    if (unit >= ran_.size()) {
      throw ContractError("zero: unit " + std::to_string(unit) + " was entered, but the model has " +
                          std::to_string(ran_.size()) + " units");
    }
    if (phase_ == Phase::idle) {
      throw ContractError("zero: unit '" + name(unit) + "' was used outside a step; call begin_step");
    }
    if (inside_) {
      throw ContractError("zero: unit '" + name(unit) + "' was entered while unit '" +
                          name(inside_->subject) + "' is in use; end its scope first");
    }
    rethrow_failure();
    const Step& step = phase_ == Phase::training ? training_.enter(op, unit) : evaluation_.enter(op, unit);
    if (step.micro_step != micro_step_) {
      check_micro_step();
      micro_step_ = step.micro_step;
    }
    runner_.prepare(step);
    if (options_.user_code == UserCode::on_caller) {
      streams_[StreamId::compute].synchronize();
      streams_.check();  // a gather that failed must not be computed with
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
      if (!skipped && phase_ == Phase::training) note_run(step);
      phase_ == Phase::training ? training_.leave() : evaluation_.leave();
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  /// Says that the backward that was entered adds no gradient to one tensor, or to any.
  void exclude(std::size_t tensor) { excluded_[tensor] = true; }
  void exclude_all(const Step& step) {
    for_each_tensor(step.subject, [&](std::size_t tensor) { excluded_[tensor] = true; });
  }

  StepResult finish(const FinishOptions& options) {
    if (phase_ != Phase::training || inside_) {
      throw ContractError("zero: finish was called " +
                          (inside_ ? "while unit '" + name(inside_->subject) + "' is in use"
                                   : std::string("outside a step")) +
                          "; call it once at the end of a step");
    }
    rethrow_failure();
    check_micro_step();
    if (micro_step_ + std::size_t{1} != schedules_.micro_steps()) {
      throw ContractError("zero: finish: this step was begun with " +
                          std::to_string(schedules_.micro_steps()) + " micro-steps, but only " +
                          std::to_string(micro_step_ + 1) + " ran");
    }
    const double ranks = static_cast<double>(mesh_.world.size());
    runner_.set_finish(options.divisor == 0 ? ranks : options.divisor, options.max_norm);
    broken_ = true;  // from the first update to the last, parameters are torn
    training_.finish();
    streams_[StreamId::reduce].synchronize();
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

  /// Forgets the step that was begun: nothing stays gathered, no gradient counts. Ranks that abandon
  /// at the same unit can begin anew; the others' next collective reports the difference.
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
  bool idle() const { return phase_ == Phase::idle; }
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
  /// Waits until everything that was enqueued is done.
  void synchronize() { streams_.synchronize(); }

  const ParameterTable& parameters() const { return parameters_; }
  const Mesh<Comm>& mesh() const { return mesh_; }
  const Schedules<StageType>& schedules() const { return schedules_; }
  const RankMemory<Buffers>& memory() const { return memory_; }
  Buffers& buffers() { return memory_.buffers(); }
  Control& control() { return control_; }
  HostStreams& streams() { return streams_; }
  const Runner& runner() const { return runner_; }
  const ModuleOptions& options() const { return options_; }

 private:
  enum class Phase { idle, training, evaluation };
  struct Ran {  // in this micro-step
    bool forward = false, backward = false;
  };

  const std::string& name(std::size_t unit) const { return parameters_.units()[unit].name; }
  void rethrow_failure() {
    if (failure_) std::rethrow_exception(failure_);
  }
  void begin(Phase phase) {
    phase_ = phase_of_events_ = phase;
    micro_step_ = 0;
    ran_.assign(ran_.size(), Ran{});
    excluded_.assign(excluded_.size(), false);
  }
  template <class F>
  void for_each_tensor(std::size_t unit, F f) const {
    for (const std::size_t u : parameters_.units()[unit].reads) {
      const UnitInfo& info = parameters_.units()[u];
      for (std::size_t t = 0; t < info.tensor_count; ++t) f(info.first_tensor + t);
    }
  }
  void note_run(const Step& step) {
    control_.ran(step.subject, step.op, step.micro_step);
    Ran& ran = ran_[step.subject];
    if (step.op == Op::forward) {
      ran.forward = true;
      return;
    }
    ran.backward = true;
    for_each_tensor(step.subject, [&](std::size_t tensor) {
      if (!std::exchange(excluded_[tensor], false)) control_.has_gradient(tensor);
    });
  }
  /// Every unit with a gradient runs forward and backward, or neither.
  void check_micro_step() {
    if (phase_ != Phase::training) return;
    bool any = false;
    for (std::size_t u = 0; u < ran_.size(); ++u) {
      const Ran ran = std::exchange(ran_[u], Ran{});
      any = any || ran.forward;
      if (ran.forward == ran.backward || !trains(u)) continue;
      throw ContractError("zero: in micro-step " + std::to_string(micro_step_) + " unit '" + name(u) +
                          "' ran " + (ran.forward ? "forward but not backward" : "backward but not forward") +
                          " on rank " + std::to_string(mesh_.world.rank()) +
                          "; run both, or skip() both");
    }
    if (any) return;
    throw ContractError("zero: no unit ran forward in micro-step " + std::to_string(micro_step_) +
                        "; begin a step with as many micro-steps as it has");
  }
  bool trains(std::size_t unit) const {
    for (const Index g : parameters_.shape().unit(unit)) {
      if (!parameters_.groups()[g].frozen) return true;
    }
    return false;
  }
  [[noreturn]] void throw_disagreement() const {
    throw ContractError("zero: finish: some ranks ran unit '" + name(control_.disagreeing_unit()) + "' " +
                        info(control_.disagreeing_op()).name +
                        " in other micro-steps of this step than other ranks did; nothing was updated. "
                        "Run the same units on all ranks; a unit whose gradient is zero on one rank "
                        "still runs there (this is rank " + std::to_string(mesh_.world.rank()) + ")");
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
  /// The ranks must hold the same schedules, names and sizes before the first step.
  void compare_schedules() {
    const std::uint64_t mine = schedules_.hash(data_type<T>);
    std::vector<std::uint64_t> all(mesh_.world.size());
    mesh_.world.all_gather(&mine, all.data(), 1, Label{"compare schedules", "all units", 0});
    for (std::size_t r = 0; r < all.size(); ++r) {
      if (all[r] == all[0]) continue;
      throw ContractError("zero::shard: rank " + std::to_string(r) + " has another model, stage or type of "
                          "weights than rank 0 (schedule hashes differ; this is rank " +
                          std::to_string(mesh_.world.rank()) + "); give all ranks the same");
    }
  }

  ParameterTable parameters_;
  Mesh<Comm> mesh_;
  Optimizer optimizer_;
  ModuleOptions options_;
  Schedules<StageType> schedules_;
  RankMemory<Buffers> memory_;
  Control control_;
  std::vector<HostEvent> training_events_, evaluation_events_;
  HostEvent fence_events_[stream_count];
  HostStreams streams_;  // after what its queued work refers to: its destruction ends that work
  Runner runner_;
  Executor<Runner> training_, evaluation_;
  std::vector<Ran> ran_;        // [unit]
  std::vector<char> excluded_;  // [tensor] gets no gradient from the backward that was entered
  Phase phase_ = Phase::idle, phase_of_events_ = Phase::idle;
  std::size_t micro_step_ = 0;
  const Step* inside_ = nullptr;  // the compute step whose scope is open
  std::exception_ptr failure_;    // of a scope's end
  bool broken_ = false;
};

}  // namespace zero::detail
