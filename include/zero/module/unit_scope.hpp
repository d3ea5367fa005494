// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// UnitScope: the time in which the weights of one unit are whole. May include module/.
#pragma once
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <zero/module/options.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/schedule/step.hpp>

namespace zero {

/// One unit while it computes. Its weights are whole until the scope ends, and views of them must
/// not be kept longer. In a backward scope its gradients begin at zero (or at what earlier
/// micro-steps left) and the user's code adds to them; they are reduced when the scope ends.
///
/// Order:   with UserCode::on_caller, everything that the unit needs is complete when the scope
/// begins;
///          with UserCode::on_stream, when `stream()` gets there.
/// Errors:  ContractError for a kind that the unit neither is nor reads. An exception that leaves
/// the
///          scope abandons the step. Errors that the end of the scope meets are thrown by the next
///          call.
template <class Module>
class UnitScope {
 public:
  /// Enters the unit; see TrainingStep::forward.
  UnitScope(Module& module, Op op, std::size_t unit)
      : module_(module),
        step_(module.engine_->enter(op, unit)),
        place_(module.engine_->inside_place()),
        exceptions_(std::uncaught_exceptions()) {}
  UnitScope(const UnitScope&) = delete;
  UnitScope& operator=(const UnitScope&) = delete;
  ~UnitScope() {
    const bool failed = std::uncaught_exceptions() > exceptions_;
    if (failed) module_.engine_->abandon();
    if constexpr (Module::check_level >= 2) module_.end_views(step_, failed);
    if (!failed) module_.engine_->leave(step_, skipped_);
  }

  /// Its place in the model, from 0.
  std::size_t index() const { return step_.subject; }
  /// "block.3"
  const std::string& name() const { return module_.parameters().units()[index()].name; }
  /// In which micro-step it runs.
  std::size_t micro_step() const { return step_.micro_step; }
  /// Which use of the unit this is in its micro-step; 0 unless layers share its weights.
  std::size_t use() const { return module_.engine_->planned().program().computes[place_].use; }
  /// Whether it runs forward or backward.
  Op op() const { return step_.op; }
  /// Whether it runs backward.
  bool is_backward() const { return step_.op == Op::backward; }
  /// Whether this forward ran before in its micro-step, and runs again for its activations.
  bool recomputes() const { return module_.engine_->planned().check.recomputes(place_); }

  /// The weights, as the user's own struct. `Kind` is the kind of this unit, or of one that it
  /// reads; `of` names that unit where it reads several of one kind.
  template <template <class> class Kind>
  auto weights(std::string_view of = {}) const {
    if constexpr (Module::check_level >= 1) module_.engine_->require_inside(step_, "weights");
    return module_.template weights<Kind>(step_, of);
  }
  /// The gradients, fp32 unless a Precision says otherwise, to add to; empty for frozen tensors.
  /// Only in a backward scope.
  template <template <class> class Kind>
  auto gradients(std::string_view of = {}) const {
    if constexpr (Module::check_level >= 1) module_.engine_->require_inside(step_, "gradients");
    return module_.template gradients<Kind>(step_, of);
  }

  /// Whether these gradients are all zero yet, so that a backward may overwrite them instead of
  /// adding: not where a unit that reads the same tensors, or an earlier micro-step, added to them.
  template <template <class> class Kind>
  bool may_overwrite(std::string_view of = {}) const {
    return module_.template may_overwrite<Kind>(step_, of);
  }

  /// Says that this unit does not run here after all. Do so in both passes, on all ranks; without
  /// it, a unit whose scope was entered counts as run, if only with a gradient of zero.
  void skip() { skipped_ = true; }
  /// Says that this backward adds no gradient to any tensor. A tensor that gets none in the whole
  /// step, on any rank, is not touched by the optimizer; otherwise this backward counts as zero.
  void no_gradient() {
    module_.require_backward(step_, "no_gradient");
    module_.engine_->progress().exclude_all(step_.subject);
  }
  /// The same for one tensor: unit.no_gradient(&Block<float>::bias).
  template <template <class> class Kind, int Level>
  void no_gradient(BasicTensor<float, Level> Kind<float>::*member) {
    module_.exclude(step_, member);
  }

  /// The stream on which this unit computes: where UserCode::on_stream work is enqueued.
  typename Module::Stream& stream() const { return module_.engine_->streams()[step_.stream]; }
  /// Lets the unit compute on `other` too, a stream of the caller's own: a cudaStream_t, or the
  /// address of a HostStream that is asynchronous or inline. What is enqueued there from now on
  /// begins when stream() gets here, and the unit ends when that is complete as well. If it throws,
  /// until other->synchronize(), all ranks skip the step.
  ///
  /// Errors:  ContractError for more than 4 streams in one scope.
  template <class Other>
  void also_on(Other* other) {
    module_.engine_->require_inside(step_, "also_on");
    module_.engine_->fork(other);
  }

 private:
  Module& module_;
  const Step& step_;
  std::size_t place_;  // in the program
  int exceptions_;
  bool skipped_ = false;
};

}  // namespace zero
