// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ModuleState: what a module keeps between steps, by name. May include all of zero.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <zero/base/list.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/detail/engine.hpp>
#include <zero/module/detail/held_copy.hpp>
#include <zero/module/detail/held_state.hpp>
#include <zero/module/detail/kept_state.hpp>
#include <zero/module/detail/refreeze.hpp>
#include <zero/module/options.hpp>

namespace zero {

/// The part of a Module that reads and sets its weights, optimizer state, counters and loss scale;
/// it knows nothing of the kinds of units. Between steps only. Collective, unless it says
/// otherwise.
template <class OptimizerType, class Comm>
class ModuleState {
 public:
  ModuleState(const ModuleState&) = delete;  // steps and scopes refer to it
  ModuleState& operator=(const ModuleState&) = delete;

  /// Sets every weight to value(tensor, element). The element counts within the whole tensor, so
  /// that the weights do not depend on the number of ranks. Not collective.
  template <class F>
  void initialize(F value) {
    settle_to_change("initialize");
    to_be_compared_ = true;
    for (const TensorInfo& tensor : parameters().tensors()) {
      kept().set_weights(tensor,
                         [&](std::size_t element) -> float { return value(tensor, element); });
    }
  }
  /// The same with the values of one rank, which alone calls `value`: for values that differ from
  /// rank to rank, such as those of a random generator. A collective.
  template <class F>
  void initialize(F value, std::size_t root) {
    settle_to_change("initialize");
    require_rank("initialize", root);
    to_be_compared_ = true;
    kept().initialize(value, root);
  }
  /// Makes all ranks hold the weights of one: whole weights are those of rank `root` of the world,
  /// shards those of its replica. What only one rank of a replica holds stays.
  void broadcast_weights(std::size_t root = 0) {
    settle_to_change("broadcast_weights");
    require_rank("broadcast_weights", root);
    kept().broadcast(root);
    to_be_compared_ = true;
  }
  /// Compares the weights that ranks must hold alike. The first begin_step after weights were set
  /// does so, and later ones do not.
  ///
  /// Errors:  ContractError on every rank, with the first tensor that differs and the ranks.
  void compare_replicas() { compare_replicas("compare_replicas"); }
  /// Copies a whole tensor into `out` on every rank; fp32 masters where there are any.
  ///
  /// Shape:   out [all elements of the tensor].
  void read_weights(std::string_view name, std::span<float> out) {
    kept().read_weights(sized("read_weights", name, out.size()), out);
  }
  /// Number k of the optimizer's state per element: for AdamW 0 is the first moment, 1 the second.
  ///
  /// Shape:   out [parameters().state_numbers(tensor, k)]: all elements, unless the optimizer keeps
  ///          other numbers of whole tensors.
  void read_state(std::string_view name, std::size_t k, std::span<float> out) {
    kept().read_state(sized_state("read_state", name, k, out.size()), k, out);
  }
  /// Replaces a whole tensor, and the masters with it. Each rank takes its part. Not collective.
  void write_weights(std::string_view name, std::span<const float> in) {
    engine_->require_live("write_weights");
    to_be_compared_ = true;
    kept().set_weights(sized("write_weights", name, in.size()),
                       [&](std::size_t i) { return in[i]; });
  }
  /// Sets state k of a tensor, whole, on all ranks.
  void write_state(std::string_view name, std::size_t k, std::span<const float> in) {
    engine_->require_live("write_state");
    kept().set_state(sized_state("write_state", name, k, in.size()), k,
                     [&](std::size_t i) { return in[i]; });
  }
  /// Exchanges the weights with their average, on all ranks: evaluation then sees the average, and
  /// read_weights gives it. The next call gives the weights back, bit for bit; no step begins
  /// before. A tensor that was never updated has no average and stays.
  ///
  /// Errors:  ContractError if averages have another type than the weights; nothing is exchanged.
  /// Moves:   where ranks hold whole weights of a sharded optimizer, each shard to all ranks.
  void exchange_average() {
    constexpr bool averages = requires { OptimizerType::average; };
    static_assert(averages,
                  "zero: exchange_average() needs an optimizer that averages the weights: give the "
                  "module zero::Ema<...>{.optimizer = ..., .decay = ...}.");
    if constexpr (averages) {
      settle("exchange_average");
      kept().require_exchangeable();
      engine_->note_exchange();
      const Control& control = engine_->control();
      kept().exchange(OptimizerType::average,
                      [&](std::size_t tensor) { return control.counter(tensor) != 0; });
    }
  }
  /// How often a tensor was updated.
  std::int64_t counter(std::string_view name) { return engine_->control().counter(index(name)); }
  /// Sets how often a tensor was updated.
  void set_counter(std::string_view name, std::int64_t count) {
    settle_to_change("set_counter");
    engine_->control().set_counter(index(name), count);
  }
  /// Training steps that were applied.
  std::int64_t step() { return engine_->control().step(); }
  /// Sets how many steps were applied.
  void set_step(std::int64_t step) {
    settle("set_step");
    engine_->control().set_step(step);
  }

  /// What this rank holds, for zero::save and zero::load of <zero/checkpoint.hpp>. Not collective.
  /// Of a module on a CUDA device it is a copy in memory of the host, which the module keeps.
  /// States of 8 bits are copied in fp32 until the next step begins.
  HeldState held_state() {
    settle_to_change("held_state");
    unpacked_.clear();
    auto& at_rest = engine_->at_rest();
    std::byte* const states = at_rest.offloads() ? at_rest.all() : nullptr;
    HeldState state = detail::list_state(
        parameters(), mesh(), [&](std::size_t g) { return at_rest.placed(g, states); }, schedule(),
        engine_->control(), unpacked_);
    if constexpr (!Engine::Device::is_host)
      held_.take(state, engine_->streams(), engine_->store().data_span());
    return state;
  }
  /// Takes step, counters and loss scale from such a list, whose numbers were replaced.
  void restore(const HeldState& state) {
    if constexpr (!Engine::Device::is_host) held_.give_back(engine_->streams());
    if constexpr (RangeOptimizer<OptimizerType>) unpacked_.give_back();
    engine_->at_rest().give_back();
    for (std::size_t t = 0; t < parameters().tensors().size(); ++t) {  // behind them lie states
      set_counter(state.tensors[t].name, state.tensors[t].counter);
    }
    set_step(state.step);
    if (const auto kept = detail::loss_scale_of(state.scalars)) set_loss_scale(*kept);
    kept().round_weights();
    to_be_compared_ = true;
  }

  /// The loss scale of the next step, and what it keeps; see ModuleOptions::loss_scale.
  LossScaleState loss_scale() { return engine_->control().loss_scale(); }
  /// Sets the loss scale and its counts.
  void set_loss_scale(const LossScaleState& state) {
    settle("set_loss_scale");
    engine_->control().set_loss_scale(state);
  }

  /// What came of the training step that was finished last. Waits for its decision.
  ///
  /// Errors:  as of TrainingStep::finish, if nobody waited for them yet.
  StepResult last_result() { return engine_->read_result(); }

  /// Names, shapes and places of everything.
  const ParameterTable& parameters() const { return engine_->parameters(); }
  /// The ranks that it is sharded over.
  const Mesh<Comm>& mesh() const { return engine_->mesh(); }
  /// Of a training step in the usual order.
  const Schedule& schedule() const { return engine_->schedules().training(); }
  /// Of an evaluation in the usual order.
  const Schedule& evaluation_schedule() const { return engine_->schedules().evaluation(); }

 protected:
  using Engine = detail::Engine<OptimizerType, Comm>;  // what runs the schedules
  /// State over an engine.
  explicit ModuleState(std::unique_ptr<Engine> engine)
      : engine_(std::move(engine)), sums_(engine_->mesh().world.size()) {}
  ~ModuleState() = default;

  /// Compares the weights of replicas, where that is still to be done.
  void compare_replicas(const char* call) {
    settle(call);
    kept().compare(sums_, call);
    to_be_compared_ = false;
  }
  /// What a checkpoint keeps.
  auto kept() { return detail::kept(*engine_); }
  /// Finishes what is under way, before state is read.
  void settle(const char* call) {
    engine_->require_idle(call);
    engine_->synchronize();
  }
  /// The same, before state is changed.
  void settle_to_change(const char* call) {
    engine_->require_live(call);
    settle(call);
  }
  /// The root must be one of the ranks.
  void require_rank(const char* call, std::size_t root) const {
    const std::size_t ranks = mesh().world.size();
    if (root < ranks) return;
    throw ContractError(std::string("zero: ") + call + ": the root is rank " +
                        std::to_string(root) + ", but there are " + std::to_string(ranks) +
                        "; pass a rank below that");
  }
  /// The number of the tensor of that name.
  std::size_t index(std::string_view name) const {
    return static_cast<std::size_t>(&parameters().find(name) - parameters().tensors().data());
  }
  /// The tensor of that name, which must have so many elements.
  const TensorInfo& sized(const char* call, std::string_view name, std::size_t size) {
    settle(call);
    const TensorInfo& tensor = parameters().find(name);
    return sized(call, tensor, tensor.shape.elements(), size);
  }
  /// The same of state k.
  const TensorInfo& sized_state(const char* call, std::string_view name, std::size_t k,
                                std::size_t size) {
    settle(call);
    const TensorInfo& tensor = parameters().find(name);
    return sized(call, tensor, parameters().state_numbers(tensor, k), size);
  }
  /// Checks that a tensor has so many elements.
  static const TensorInfo& sized(const char* call, const TensorInfo& tensor, std::size_t expected,
                                 std::size_t size) {
    if (expected == size) return tensor;
    throw ContractError(std::string("zero: ") + call + " of '" + tensor.name + "' expects " +
                        std::to_string(expected) + " elements, got " + std::to_string(size));
  }
  /// Begins a step, where copies for held_state() end. After weights were set it compares replicas.
  std::uint64_t begin(const StepOptions& options) {
    if (to_be_compared_) compare_replicas("begin_step");
    unpacked_.clear();
    engine_->at_rest().drop_copy();
    return engine_->begin_step(options);
  }

  std::unique_ptr<Engine> engine_;  // another one after Module::set_frozen
  bool to_be_compared_ = false;     // weights were set

 private:
  List<detail::Checksums> sums_;  // [rank of the world]
  detail::HeldCopy held_;
  detail::UnpackedStates<OptimizerType> unpacked_;
};

}  // namespace zero
