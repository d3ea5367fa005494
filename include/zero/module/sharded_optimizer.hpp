// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ShardedOptimizer: an optimizer whose state is sharded, for a loop that keeps weights and
// gradients flat and whole. May include all of zero.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <zero/layout/fields.hpp>
#include <zero/module/sharded_module.hpp>
#include <zero/policy/stages.hpp>

namespace zero {

namespace detail {
struct FlatConfig {
  std::size_t elements = 0;
};
/// A whole model as one tensor.
template <class T>
struct Flat {
  BasicTensor<T, 1> elements;  // of one level, so that it is one type in all files
  static constexpr auto tensors(const FlatConfig& config) {
    return zero::tensors(tensor("elements", &Flat::elements, {config.elements}));
  }
};
using FlatModel = Model<UnitList<Flat, FlatConfig>>;
}  // namespace detail

/// The model of a ShardedOptimizer: one tensor, "flat.elements". With ModuleOptions::memory, its
/// memory is the caller's: bytes_needed<Zero1>(flat_model(elements), ranks, optimizer) bytes.
inline detail::FlatModel flat_model(std::size_t elements) {
  return detail::FlatModel(unit<detail::Flat>("flat", detail::FlatConfig{elements}));
}

/// Zero1 for a loop that knows nothing of units: its weights and its gradients are flat arrays,
/// whole and at the same place at all times, and each rank keeps and updates its part of the
/// optimizer state. One object on each rank; calls are collective.
///
/// zero_gradients() takes the place of the loop's own zeroing, and step() that of its all-reduce
/// and of its update. In between, gradients are added to, also several times.
///
/// Units:   counts are elements; all are fp32.
template <Optimizer O, class Comm>
class ShardedOptimizer {
 public:
  /// What holds weights, gradients and state.
  using Module = zero::Module<detail::FlatModel, O, Comm, float>;

  /// For `elements` weights, over the ranks of a mesh.
  ShardedOptimizer(const Mesh<Comm>& mesh, const O& optimizer, std::size_t elements,
                   const ModuleOptions& options = {})
      : module_(zero::shard<Zero1>(flat_model(elements), mesh, optimizer, options)) {
    begin();
    weights_ = view(unit_->template weights<detail::Flat>());
    gradients_ = view(unit_->template gradients<detail::Flat>());
    stream_ = &unit_->stream();
    abandon();
  }
  /// The same over all ranks of a communicator.
  ShardedOptimizer(Comm& comm, const O& optimizer, std::size_t elements,
                   const ModuleOptions& options = {})
      : ShardedOptimizer(zero::mesh(comm), optimizer, elements, options) {}
  ShardedOptimizer(const ShardedOptimizer&) = delete;
  ShardedOptimizer& operator=(const ShardedOptimizer&) = delete;
  ~ShardedOptimizer() { abandon(); }

  /// The weights. The caller writes the first ones, alike on all ranks.
  std::span<float> weights() const { return weights_; }
  /// The gradients, at the same place at all times; to be added to between the two calls.
  std::span<float> gradients() const { return gradients_; }

  /// Begins a step, in which gradients are zero. One that was begun and had no step() is forgotten.
  ///
  /// Errors:  ContractError on every rank, the first time, if ranks hold different weights.
  void zero_gradients() {
    abandon();
    if (!compared_) module_.compare_replicas();
    compared_ = true;
    begin();
  }
  /// Averages the gradients over the ranks, updates each rank's part of the weights, and gathers
  /// them; see TrainingStep::finish. Gradients then hold nothing of use.
  ///
  /// Errors:  ContractError if no step was begun.
  StepResult step(const FinishOptions& options = {}) {
    if (!step_) {
      throw ContractError(
          "zero::ShardedOptimizer::step: no step was begun; call zero_gradients() first");
    }
    unit_.reset();
    const StepResult result = step_->finish(options);
    step_.reset();
    module_.synchronize();  // the weights are whole again
    return result;
  }

  /// On a device: where the caller's kernels go that read weights and add to gradients.
  typename Comm::Stream& stream() const { return *stream_; }
  /// What does it: for zero::save and zero::load, learning rates by name, bytes held and sent.
  Module& module() { return module_; }

 private:
  void begin() {
    step_.emplace(module_, StepOptions{});
    { const auto forward = step_->forward(0); }
    unit_.emplace(module_, Op::backward, 0);
  }
  void abandon() {
    if (step_) step_->abandon();
    unit_.reset();
    step_.reset();
  }
  static std::span<float> view(const detail::Flat<float>& flat) {
    return {flat.elements.data(), flat.elements.size()};
  }

  ShardedModule<Zero1, detail::FlatModel, O, Comm, float> module_;
  bool compared_ = false;
  std::span<float> weights_, gradients_;
  typename Comm::Stream* stream_ = nullptr;
  std::optional<TrainingStep<Module>> step_;
  std::optional<UnitScope<Module>> unit_;
};

}  // namespace zero
