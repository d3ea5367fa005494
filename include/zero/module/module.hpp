// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Module: what a ShardedModule can do, whatever its stage. May include all of zero.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <zero/base/array.hpp>
#include <zero/base/list.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/comm/communicator.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/accounting.hpp>
#include <zero/module/detail/engine.hpp>
#include <zero/module/detail/refreeze.hpp>
#include <zero/module/detail/unit_view.hpp>
#include <zero/module/detail/update_shape.hpp>
#include <zero/module/model.hpp>
#include <zero/module/module_state.hpp>
#include <zero/module/step_scope.hpp>
#include <zero/optim/groups.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/policy/make_schedule.hpp>
#include <zero/policy/precision.hpp>

namespace zero {

template <class Module>
class CapturedStep;

/// Trains a model in the way that a stage says: a ShardedModule without the type of its stage, so
/// that code which takes any stage is compiled once. One object on each rank.
///
/// T is the type of the weights that compute, or a WithPrecision; else gradients, master weights
/// and moments are fp32. All calls are collective unless they say otherwise: every rank makes the
/// same calls in the same order. Nothing is allocated after construction, where the schedules for
/// this model are proved.
template <class ModelType, class OptimizerType, class Comm, class T>
class Module : public ModuleState<OptimizerType, Comm> {
  static_assert(Optimizer<OptimizerType>,
                "zero::shard: this is no optimizer; see zero/optim/optimizer.hpp for what it has.");
  static_assert(Communicator<Comm>);
  static_assert(detail::is_precision<T>,
                "zero::shard: the weights that compute are float, zero::bf16 or zero::fp16, or a "
                "zero::Precision says more.");
  using State = ModuleState<OptimizerType, Comm>;
  using Engine = typename State::Engine;
  using Weight = typename detail::ElementOf<precision_of<T>.compute>::Type;
  using Gradient = typename detail::ElementOf<precision_of<T>.accumulate>::Type;

 public:
  using State::parameters;
  /// On which units compute.
  using Stream = typename Comm::Stream;

  /// `types` may be any that have the `compute` and `accumulate` of T.
  Module(const StageValue& stage, ModelType model, const Mesh<Comm>& mesh,
         Groups<OptimizerType> optimizers, ModuleOptions options,
         const Precision& types = precision_of<T>)
      : State(std::make_unique<Engine>(
            stage, make_parameters(model, stage, mesh, checked(types), optimizers), mesh,
            optimizers, checked(options))),
        model_(std::move(model)) {
    if constexpr (check_level >= 2) {
      watches_ = std::make_unique<ScopeWatch[]>(parameters().units().size());
      for (std::size_t u = 0; u < parameters().units().size(); ++u) {
        watches_[u].name(parameters().units()[u].name);
      }
    }
    if (engine_->options().poison) detail::clear(*engine_);  // the padding stays NaN
  }
  ~Module() { engine_.reset(); }  // what is queued refers to the watches

  /// That of the tensors of the model's kinds; see ZERO_CHECK_LEVEL.
  static constexpr int check_level = ModelType::check_level;

  /// Begins a training step. After weights were set it compares replicas first.
  TrainingStep<Module> begin_step(const StepOptions& options = {}) { return {*this, options}; }
  /// Captures a training step, for which f(step) enqueues the user's kernels on unit.stream(), as a
  /// CUDA graph: a CapturedStep, whose run() does all of it in one launch. On CUDA devices.
  template <class F>
  auto capture(F f, const StepOptions& options = {}) {
    using Device = typename Engine::Device;
    static_assert(
        !Device::is_host,
        "zero: capture() needs a module on a CUDA device; shard it over an NcclCommunicator.");
    return typename Device::template Captured<Module>(*this, std::move(f), options);
  }
  /// Begins a forward pass that changes nothing; between training steps.
  Evaluation<Module> evaluate(const EvaluationOptions& options = {}) { return {*this, options}; }

  /// Freezes, or thaws, every tensor whose full name matches `pattern`, in which '*' stands for any
  /// text: set_frozen("block.0.*", false). Between steps. What is frozen loses its gradient,
  /// optimizer state and counter; what is thawed begins with new ones of zero; no weight that
  /// computes changes, and no step is counted. Schedules are proved again.
  ///
  /// Allocates: it makes the module's memory anew: while it runs, that before, that after, and one
  ///            whole tensor in fp32 are held. Where ModuleOptions::memory was the caller's, so is
  ///            `memory`, another block of bytes_if_frozen(pattern, fixed); the old one is free.
  /// Errors:    ContractError if no name matches, and on every rank if ranks differ; then the
  ///            module is as before.
  void set_frozen(std::string_view pattern, bool fixed, std::span<std::byte> memory = {}) {
    State::settle_to_change("set_frozen");
    detail::check_new_memory(engine_->options().memory, memory);
    ModuleOptions options = engine_->options();
    options.memory = memory;
    options.programs = engine_->schedules().programs();
    auto next = std::make_unique<Engine>(engine_->schedules().stage(), refrozen(pattern, fixed),
                                         this->mesh(), engine_->optimizers(), options);
    if (options.poison) detail::clear(*next);
    detail::move_state(*engine_, *next);
    engine_ = std::move(next);
    ++version_;
  }
  /// Bytes of all buffers of this rank after set_frozen(pattern, fixed).
  std::size_t bytes_if_frozen(std::string_view pattern, bool fixed) const {
    ModuleOptions options = engine_->options();
    options.programs = engine_->schedules().programs();
    const ParameterTable table = refrozen(pattern, fixed);
    const detail::Schedules schedules(engine_->schedules().stage(), table, options);
    return detail::rank_bytes<typename Engine::Buffers>(
        table, schedules,
        detail::control_shape<OptimizerType>(table, this->mesh(), engine_->options()));
  }
  /// Elements of a tensor that this rank updates; none on a rank whose shard is empty.
  std::size_t owned(std::string_view name) const {
    const TensorInfo& tensor = parameters().find(name);
    const GroupInfo& group = parameters().groups()[tensor.group];
    const std::size_t part = group.parts == 1 ? 0 : this->mesh().replicate.rank();
    std::size_t sum = 0;
    group.layout.for_each_piece(this->mesh().shard.rank() * group.parts + part,
                                [&](const Piece& piece) {
                                  if (piece.tensor == tensor.place) sum += piece.count;
                                });
    return sum;
  }

  /// Bytes of whole units that are gathered now, as far as steps were issued.
  std::size_t gathered_bytes() const { return engine_->runner().gathered_bytes(); }
  /// Bytes that this rank holds, as they were handed out.
  BytesHeld bytes_held() const { return measured_bytes(engine_->memory().arena()); }
  /// The same from the schedule and the sizes alone.
  BytesHeld predicted_bytes_held() const {
    const std::size_t units = parameters().units().size();
    List<Program> programs = engine_->schedules().programs();
    programs.push_back(evaluation(units));
    programs.push_back(training(units, engine_->schedules().max_micro_steps()));
    programs.push_back(training(units, 1));
    List<Schedule> all;
    for (const Program& program : programs) all.push_back(made(program));
    return predict_bytes_held(parameters(), OptimizerType::states, engine_->control_shape(), all);
  }
  /// Optimizer state that this rank keeps elsewhere, and what was moved there and back so far.
  BytesOffloaded offloaded() const {
    const auto& store = engine_->store();
    return {store.bytes(), store.fetched(), store.stored()};
  }
  /// What a training step moves, if optimizer state is offloaded.
  BytesOffloaded predicted_offloaded() const {
    return predict_bytes_offloaded(parameters(), OptimizerType::states, State::schedule());
  }
  /// Bytes that this rank sends in one training step, from the schedule and the sizes alone.
  BytesSent predicted_bytes_sent(std::size_t micro_steps = 1) const {
    return predicted_bytes_sent(training(parameters().units().size(), micro_steps));
  }
  /// The same for a program of the caller's.
  BytesSent predicted_bytes_sent(const Program& program) const {
    return predict_bytes_sent(parameters(), engine_->control_shape(), made(program),
                              this->mesh().shard.size(), this->mesh().replicate.size(),
                              this->mesh().replicate.rank());
  }
  /// Bytes that this rank has sent so far, counted by its communicators.
  Traffic sent() const { return measured_traffic(this->mesh()); }
  /// When each step of the schedule ran last, in microseconds, if ModuleOptions::record_spans is
  /// set.
  const List<Span>& spans() {
    engine_->synchronize();
    return engine_->runner().spans();
  }
  /// Waits on the host until all updates and gathers that were enqueued are done.
  void synchronize() { engine_->synchronize(); }

 private:
  friend class UnitScope<Module>;
  friend class TrainingStep<Module>;
  friend class Evaluation<Module>;
  friend class Pass<Module>;
  template <class>
  friend class CapturedStep;
  using State::engine_, State::to_be_compared_;

  Schedule made(const Program& program) const {
    return make_schedule(engine_->schedules().stage(), parameters().shape(), program);
  }
  static ModuleOptions checked(ModuleOptions options) {
    options.poison = options.poison || check_level >= 2;
    return options;
  }
  static const Precision& checked(const Precision& types) {
    if (is_valid(types) && types.compute == precision_of<T>.compute &&
        types.accumulate == precision_of<T>.accumulate) {
      return types;
    }
    throw ContractError(
        "zero::Module: the given Precision is none that zero::shard accepts, or its compute and "
        "accumulate are not those of the module's type; pass one that fits");
  }
  /// Makes the views stale that were taken in a scope: where its code runs, after that.
  void end_views(const Step& step, bool now) noexcept {
    ScopeWatch& watch = watches_[step.subject];
    const std::uint64_t left = watch.leave();
    if (now) return watch.end(left);
    try {
      engine_->streams()[step.stream].enqueue([&watch, left] { watch.end(left); });
    } catch (...) {  // the stream has failed, as the next call will say
      watch.end(left);
    }
  }
  static ParameterTable make_parameters(const ModelType& model, const StageValue& stage,
                                        const Mesh<Comm>& mesh, const Precision& types,
                                        const Groups<OptimizerType>& optimizers,
                                        const List<bool>* fixed = nullptr) {
    return ParameterTable(model, mesh.shard.size(), types,
                          stage.traits.shards_replicas ? mesh.replicate.size() : 1, stage.whole,
                          fixed, memory_alignment, detail::update_shape(optimizers));
  }
  /// The table after tensors are frozen or thawed.
  ParameterTable refrozen(std::string_view pattern, bool fixed) const {
    const List<bool> all = detail::refrozen(parameters(), pattern, fixed);
    return make_parameters(model_, engine_->schedules().stage(), this->mesh(),
                           parameters().precision(), engine_->optimizers(), &all);
  }
  const ScopeWatch* watch(const Step& step) const {
    return watches_ == nullptr ? nullptr : &watches_[step.subject];
  }
  template <template <class> class Kind>
  Kind<Weight> weights(const Step& step, std::string_view of) {
    return detail::unit_view<Kind, Weight>(model_, parameters(), step, of, Space::params_whole,
                                           watch(step), [&](const Access& from, std::size_t g) {
                                             return this->engine_->buffers().whole_params(
                                                 from.index, g);
                                           });
  }
  void require_backward(const Step& step, const char* call) const {
    engine_->require_inside(step, call);
    if (step.op == Op::backward) return;
    throw ContractError(std::string("zero: ") + call + " of unit '" +
                        parameters().units()[step.subject].name +
                        "' was called in a forward pass; it belongs into step.backward()");
  }
  template <template <class> class Kind>
  Kind<Gradient> gradients(const Step& step, std::string_view of) {
    require_backward(step, "gradients");
    return detail::unit_view<Kind, Gradient>(model_, parameters(), step, of, Space::grads_whole,
                                             watch(step), [&](const Access& to, std::size_t g) {
                                               return this->engine_->buffers().whole_gradient(
                                                   to.index, g);
                                             });
  }
  template <template <class> class Kind>
  bool may_overwrite(const Step& step, std::string_view of) const {
    require_backward(step, "may_overwrite");
    bool may = true;
    (void)detail::unit_view<Kind, Gradient>(model_, parameters(), step, of, Space::grads_whole,
                                            nullptr, [&](const Access& to, std::size_t) {
                                              may = may && to.mode == Mode::write;
                                              return Array();
                                            });
    return may;
  }
  template <template <class> class Kind, int Level>
  void exclude(const Step& step, BasicTensor<float, Level> Kind<float>::*member) {
    require_backward(step, "no_gradient");
    detail::with_kind<Kind>(model_, parameters(), step, {}, [&](const auto& config, std::size_t u) {
      std::size_t tensor = this->parameters().units()[u].first_tensor;
      detail::fields_of<Kind, float>(config).for_each([&](const auto& field) {
        using Of = std::remove_cvref_t<decltype(field)>;
        if constexpr (std::is_same_v<Of, Field<Kind<float>, BasicTensor<float, Level>>>) {
          if (field.member == member) this->engine_->progress().exclude(tensor);
        }
        ++tensor;
      });
    });
  }

  ModelType model_;
  std::size_t version_ = 0;                // of the engine
  std::unique_ptr<ScopeWatch[]> watches_;  // [unit] at check level 2
};

}  // namespace zero
