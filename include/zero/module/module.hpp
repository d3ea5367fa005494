// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Module: what a ShardedModule can do, whatever its stage. May include all of zero.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#include <zero/base/array.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/comm/communicator.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/accounting.hpp>
#include <zero/module/detail/engine.hpp>
#include <zero/module/detail/held_state.hpp>
#include <zero/module/detail/kept_state.hpp>
#include <zero/module/detail/name_pattern.hpp>
#include <zero/module/model.hpp>
#include <zero/module/step_scope.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/policy/make_schedule.hpp>
#include <zero/policy/precision.hpp>

namespace zero {

/// Trains a model in the way that a stage says: a ShardedModule without the type of its stage, so
/// that code which takes any stage is compiled once. One object on each rank.
///
/// T is the type of the weights that compute, or a WithPrecision; else gradients, master weights
/// and moments are fp32. All calls are collective unless they say otherwise: every rank makes the
/// same calls in the same order. Nothing is allocated after construction, where the schedules for
/// this model are proved.
template <class ModelType, class OptimizerType, class Comm, class T>
class Module {
  static_assert(Optimizer<OptimizerType>);
  static_assert(Communicator<Comm>);
  static_assert(detail::is_precision<T>,
                "zero::shard: the weights that compute are float, zero::bf16 or zero::fp16, or a "
                "zero::Precision says more.");
  using Engine = detail::Engine<OptimizerType, Comm>;
  using Weight = typename detail::ElementOf<precision_of<T>.compute>::Type;
  using Gradient = typename detail::ElementOf<precision_of<T>.accumulate>::Type;

 public:
  /// `types` may be any that have the `compute` and `accumulate` of T.
  Module(const StageValue& stage, ModelType model, const Mesh<Comm>& mesh, OptimizerType optimizer,
         ModuleOptions options, const Precision& types = precision_of<T>)
      : model_(std::move(model)),
        engine_(std::make_unique<Engine>(stage, make_parameters(stage.traits, mesh, checked(types)),
                                         mesh, std::move(optimizer), options)) {
    if (options.poison) clear(*engine_);  // the padding stays NaN
  }

  Module(const Module&) = delete;  // steps and scopes refer to it
  Module& operator=(const Module&) = delete;

  /// Begins a training step.
  TrainingStep<Module> begin_step(const StepOptions& options = {}) { return {*this, options}; }
  /// Begins a forward pass that changes nothing; between training steps.
  Evaluation<Module> evaluate(const EvaluationOptions& options = {}) { return {*this, options}; }

  /// Sets every weight to value(tensor, element). The element counts within the whole tensor, so
  /// that the weights do not depend on the number of ranks. Not collective.
  template <class F>
  void initialize(F value) {
    settle("initialize");
    for (const TensorInfo& tensor : parameters().tensors()) {
      kept().set_weights(tensor,
                         [&](std::size_t element) -> float { return value(tensor, element); });
    }
  }
  /// Copies a whole tensor into `out` on every rank; fp32 masters where there are any.
  ///
  /// Shape:   out [all elements of the tensor].
  void read_weights(std::string_view name, std::span<float> out) {
    kept().read_weights(sized("read_weights", name, out.size()), out);
  }
  /// Number k of the optimizer's state per element: for AdamW 0 is the first moment, 1 the second.
  void read_state(std::string_view name, std::size_t k, std::span<float> out) {
    kept().read_state(sized("read_state", name, out.size()), k, out);
  }
  /// Replaces a whole tensor, and the masters with it. Each rank takes its part. Not collective.
  void write_weights(std::string_view name, std::span<const float> in) {
    kept().set_weights(sized("write_weights", name, in.size()),
                       [&](std::size_t i) { return in[i]; });
  }
  void write_state(std::string_view name, std::size_t k, std::span<const float> in) {
    kept().set_state(sized("write_state", name, in.size()), k,
                     [&](std::size_t i) { return in[i]; });
  }
  /// How often a tensor was updated.
  std::int64_t counter(std::string_view name) { return engine_->control().counter(index(name)); }
  void set_counter(std::string_view name, std::int64_t count) {
    settle("set_counter");
    engine_->control().set_counter(index(name), count);
  }
  /// Training steps that were applied.
  std::int64_t step() { return engine_->control().step(); }
  void set_step(std::int64_t step) {
    settle("set_step");
    engine_->control().set_step(step);
  }

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
    settle("set_frozen");
    ModuleOptions options = engine_->options();
    if (options.memory.empty() != memory.empty()) {
      throw ContractError(options.memory.empty()
                              ? "zero: set_frozen: this module's memory is its own; pass none"
                              : "zero: set_frozen: this module's memory is the caller's; pass "
                                "another block of bytes_if_frozen(...)");
    }
    if (!memory.empty() && memory.data() < options.memory.data() + options.memory.size() &&
        options.memory.data() < memory.data() + memory.size()) {
      throw ContractError(
          "zero: set_frozen: the new block of memory overlaps with the old one; "
          "pass another one");
    }
    options.memory = memory;
    options.programs = engine_->schedules().programs();
    auto next = std::make_unique<Engine>(engine_->schedules().stage(), refrozen(pattern, fixed),
                                         mesh(), engine_->optimizer(), options);
    if (options.poison) clear(*next);
    move_into(*next);
    engine_ = std::move(next);
  }
  /// Bytes of all buffers of this rank after set_frozen(pattern, fixed).
  std::size_t bytes_if_frozen(std::string_view pattern, bool fixed) const {
    ModuleOptions options = engine_->options();
    options.programs = engine_->schedules().programs();
    const ParameterTable table = refrozen(pattern, fixed);
    const detail::Schedules schedules(engine_->schedules().stage(), table, options);
    return detail::RankMemory<typename Engine::Buffers>::bytes_needed(table, schedules,
                                                                      mesh().world.size());
  }
  /// What this rank holds, for zero::save and zero::load of <zero/checkpoint.hpp>. Not collective.
  HeldState held_state() {
    settle("held_state");
    return detail::list_state(parameters(), mesh(), engine_->buffers(), schedule(),
                              engine_->control());
  }
  /// Takes step and counters from such a list.
  void restore(const HeldState& state) {
    for (const HeldTensor& tensor : state.tensors) set_counter(tensor.name, tensor.counter);
    set_step(state.step);
    kept().round_weights();
  }

  /// Names, shapes and places of everything.
  const ParameterTable& parameters() const { return engine_->parameters(); }
  const Mesh<Comm>& mesh() const { return engine_->mesh(); }
  const Schedule& schedule() const { return engine_->schedules().training(); }
  const Schedule& evaluation_schedule() const { return engine_->schedules().evaluation(); }
  /// Elements of a tensor that this rank updates; none on a rank whose shard is empty.
  std::size_t owned(std::string_view name) const {
    const TensorInfo& tensor = parameters().find(name);
    const GroupInfo& group = parameters().groups()[tensor.group];
    const std::size_t part = group.parts == 1 ? 0 : mesh().replicate.rank();
    std::size_t sum = 0;
    group.layout.for_each_piece(mesh().shard.rank() * group.parts + part, [&](const Piece& piece) {
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
    std::vector<Program> programs = engine_->schedules().programs();
    programs.push_back(evaluation(units));
    programs.push_back(training(units, engine_->schedules().max_micro_steps()));
    programs.push_back(training(units, 1));
    std::vector<Schedule> all;
    for (const Program& program : programs) {
      all.push_back(make_schedule(engine_->schedules().stage(), parameters().shape(), program));
    }
    return predict_bytes_held(parameters(), OptimizerType::states, mesh().world.size(), all);
  }
  /// Bytes that this rank sends in one training step, from the schedule and the sizes alone.
  BytesSent predicted_bytes_sent(std::size_t micro_steps = 1) const {
    return predicted_bytes_sent(training(parameters().units().size(), micro_steps));
  }
  BytesSent predicted_bytes_sent(const Program& program) const {
    const Schedule made =
        make_schedule(engine_->schedules().stage(), parameters().shape(), program);
    return predict_bytes_sent(parameters(), made, mesh().shard.size(), mesh().replicate.size(),
                              mesh().replicate.rank());
  }
  /// Bytes that this rank has sent so far, counted by its communicators.
  Traffic sent() const { return measured_traffic(mesh()); }
  /// When each step of the schedule ran last, in microseconds, if ModuleOptions::record_spans is
  /// set.
  const std::vector<Span>& spans() {
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

  static const Precision& checked(const Precision& types) {
    if (is_valid(types) && types.compute == precision_of<T>.compute &&
        types.accumulate == precision_of<T>.accumulate) {
      return types;
    }
    throw ContractError(
        "zero::Module: the given Precision is none that zero::shard accepts, or its compute and "
        "accumulate are not those of the module's type; pass one that fits");
  }
  ParameterTable make_parameters(const StageTraits& traits, const Mesh<Comm>& mesh,
                                 const Precision& types,
                                 const std::vector<bool>* fixed = nullptr) const {
    return ParameterTable(model_, mesh.shard.size(), types,
                          traits.shards_replicas ? mesh.replicate.size() : 1, fixed);
  }
  /// The table after tensors are frozen or thawed.
  ParameterTable refrozen(std::string_view pattern, bool fixed) const {
    std::vector<bool> all;
    bool any = false;
    for (const TensorInfo& tensor : parameters().tensors()) {
      const bool matches = detail::name_matches(pattern, tensor.name);
      any = any || matches;
      all.push_back(matches ? fixed : tensor.frozen);
    }
    if (any) return make_parameters(schedule().traits, mesh(), parameters().precision(), &all);
    throw ContractError("zero: set_frozen: no tensor's name matches '" + std::string(pattern) +
                        "'; names are unit.tensor, and '*' stands for any text");
  }
  using Kept = detail::KeptState<Comm, typename Engine::Buffers>;
  Kept kept(Engine& engine) const {
    return {engine.parameters(), engine.mesh(), engine.buffers(), engine.schedules().training()};
  }
  Kept kept() { return kept(*engine_); }
  void clear(Engine& engine) const {
    for (const TensorInfo& tensor : engine.parameters().tensors()) {
      kept(engine).set_weights(tensor, [](std::size_t) { return 0.0F; });
      clear_state(engine, tensor);
    }
  }
  void clear_state(Engine& engine, const TensorInfo& tensor) const {
    for (std::size_t k = 0; k < OptimizerType::states && !tensor.frozen; ++k) {
      kept(engine).set_state(tensor, k, [](std::size_t) { return 0.0F; });
    }
  }
  /// Gives `next` what this module keeps, name by name. A collective.
  void move_into(Engine& next) {
    std::vector<float> whole;
    for (std::size_t t = 0; t < parameters().tensors().size(); ++t) {
      const TensorInfo& from = parameters().tensors()[t];
      const TensorInfo& to = next.parameters().tensors()[t];
      whole.resize(from.shape.elements());
      const auto value = [&](std::size_t i) { return whole[i]; };
      kept().read_weights(from, whole);
      kept(next).set_weights(to, value);
      clear_state(next, to);
      if (from.frozen || to.frozen) continue;
      for (std::size_t k = 0; k < OptimizerType::states; ++k) {
        kept().read_state(from, k, whole);
        kept(next).set_state(to, k, value);
      }
      next.control().set_counter(t, engine_->control().counter(t));
    }
    next.control().set_step(engine_->control().step());
  }
  void settle(const char* call) {
    engine_->require_idle(call);
    engine_->synchronize();
  }
  std::size_t index(std::string_view name) const {
    return static_cast<std::size_t>(&parameters().find(name) - parameters().tensors().data());
  }
  const TensorInfo& sized(const char* call, std::string_view name, std::size_t size) {
    settle(call);
    const TensorInfo& tensor = parameters().find(name);
    if (tensor.shape.elements() == size) return tensor;
    throw ContractError(std::string("zero: ") + call + " of '" + tensor.name + "' expects " +
                        std::to_string(tensor.shape.elements()) + " elements, got " +
                        std::to_string(size));
  }

  /// Calls f(config, unit) for the unit of kind `Kind` that the unit of a compute step is or reads;
  /// `of` is its name, or empty for the first one.
  template <template <class> class Kind, class F>
  void with_kind(const Step& step, std::string_view of, F f) const {
    static_assert(ModelType::template has_kind<Kind>,
                  "zero: no unit of this model is of the kind whose tensors are asked for.");
    for (const std::size_t u : parameters().units()[step.subject].reads) {
      if (!of.empty() && parameters().units()[u].name != of) continue;
      if (model_.template with_kind<Kind>(u, [&](const auto& config) { f(config, u); })) return;
    }
    throw ContractError("zero: unit '" + parameters().units()[step.subject].name +
                        "' was asked for tensors of a kind that it neither is nor reads" +
                        (of.empty() ? "" : " in a unit called '" + std::string(of) + "'"));
  }
  /// Where a tensor lies; null for one that a view leaves empty.
  struct Pointer {
    Array whole;
    std::size_t begin = 0;
    template <class Number>
    explicit operator Number*() const {
      return whole.data == nullptr ? nullptr : whole.as<Number>() + begin;
    }
  };
  /// A view of one unit's tensors; `whole(slot, g)` is the buffer in which group g is whole.
  template <template <class> class Kind, class Number, class Whole>
  Kind<Number> view(const Step& step, std::string_view of, Space space, Whole whole) const {
    Kind<Number> made{};
    with_kind<Kind>(step, of, [&](const auto& config, std::size_t u) {
      const std::size_t first = parameters().units()[u].first_tensor;
      made = view_of<Kind, Number>(config, [&](std::size_t i) -> Pointer {
        const TensorInfo& tensor = parameters().tensors()[first + i];
        if (space == Space::grads_whole && tensor.frozen) return {};
        std::size_t nth = 0;
        for (const Index g : parameters().shape().unit(step.subject)) {
          if (g == tensor.group) break;
          nth += space == Space::params_whole || !parameters().groups()[g].frozen ? 1 : 0;
        }
        const Index slot = Engine::Runner::nth_access(step, space, nth).index;
        const FlatLayout& layout = parameters().groups()[tensor.group].layout;
        return {whole(slot, tensor.group), layout.tensor_offset(tensor.place)};
      });
    });
    return made;
  }
  template <template <class> class Kind>
  Kind<Weight> weights(const Step& step, std::string_view of) {
    return view<Kind, Weight>(step, of, Space::params_whole, [&](Index slot, std::size_t g) {
      return engine_->buffers().whole_params(slot, g);
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
    return view<Kind, Gradient>(step, of, Space::grads_whole, [&](Index slot, std::size_t g) {
      return engine_->buffers().whole_gradient(slot, g);
    });
  }
  template <template <class> class Kind>
  void exclude(const Step& step, Tensor<float> Kind<float>::*member) {
    require_backward(step, "no_gradient");
    with_kind<Kind>(step, {}, [&](const auto& config, std::size_t u) {
      std::size_t tensor = parameters().units()[u].first_tensor;
      detail::fields_of<Kind, float>(config).for_each([&](const auto& field) {
        using Of = std::remove_cvref_t<decltype(field)>;
        if constexpr (std::is_same_v<Of, Field<Kind<float>, Tensor<float>>>) {
          if (field.member == member) engine_->progress().exclude(tensor);
        }
        ++tensor;
      });
    });
  }

  ModelType model_;
  std::unique_ptr<Engine> engine_;  // another one after set_frozen
};

}  // namespace zero
