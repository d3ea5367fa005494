// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// CapturedStep: a whole training step as a CUDA graph. May include all of zero.
#pragma once
#include <cstddef>
#include <zero/base/error.hpp>
#include <zero/device/cuda/graph.hpp>
#include <zero/module/control.hpp>
#include <zero/module/options.hpp>

namespace zero {

/// A training step that was captured and is run again and again: gathers, the user's kernels,
/// reductions, norm, decision and updates as one launch. Made by Module::capture.
///
/// What the host tells a step comes through memory that the graph reads when it runs: the learning
/// rate and all else that the optimizer makes of the step, the step counter, the counters of the
/// tensors, the loss scale, the divisor and the limit of the norm. What the user's code told the
/// step (which units ran, which tensors have no gradient) is as it was captured. The user's kernels
/// read inputs from where they were when captured: copy new ones there.
///
/// Other steps, evaluations and changes of weights may come between two runs. A call of set_frozen
/// makes it stale.
template <class Module>
class CapturedStep {
 public:
  /// Runs `f(step)`, which enqueues on unit.stream() and calls neither finish nor anything that
  /// waits.
  template <class F>
  CapturedStep(Module& module, F f, const StepOptions& options)
      : module_(module), version_(module.version_) {
    if (module.to_be_compared_) module.compare_replicas("capture");
    auto& engine = *module.engine_;
    auto planned = module.begin_step(options);  // while the host may still wait for the ranks
    planned.abandon();
    engine.begin_capture();
    try {
      auto step = module.begin_step(options);
      f(step);
      step.finish_async();
      graph_ = engine.end_capture();
    } catch (...) {
      engine.abandon();
      throw;
    }
    notes_ = engine.control().notes();
  }

  /// Runs the step. Waits for its end.
  ///
  /// Errors:  as of TrainingStep::finish, and ContractError after set_frozen.
  StepResult run(const FinishOptions& options = {}) {
    if (version_ == module_.version_) {
      module_.engine_->run_captured(graph_, notes_, options);
      return module_.last_result();
    }
    throw ContractError(
        "zero: run was called on a step that was captured before set_frozen; capture it again");
  }

 private:
  Module& module_;
  std::size_t version_;
  CudaGraph graph_;
  StepNotes notes_;
};

}  // namespace zero
