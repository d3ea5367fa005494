// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What a caller may choose of a module and of a step, and what a step returns. May include device/
// schedule/ and optim/.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <zero/device/host_stream.hpp>
#include <zero/optim/loss_scale.hpp>
#include <zero/schedule/program.hpp>
#include <zero/schedule/step.hpp>

struct CUstream_st;  // what a cudaStream_t points to

namespace zero {

/// Where the user's forward and backward code runs.
enum class UserCode {
  on_caller,  // in the scope of a unit, on the calling thread: entering the scope waits for the
              // unit
  on_stream   // enqueued by the user on unit.stream(), as on a GPU, where nothing else is possible:
              // entering never waits
};

class Files;

/// Where a module keeps optimizer state, if its stage has the policy OffloadOptimizer<InFile>.
struct OffloadPlace {
  /// A directory that exists, best on a disk of the rank's own. Each rank makes a file in it, which
  /// has no name while it is used and is gone when the module is, however that ends.
  std::string directory{};
  /// Another file system than the machine's; it must outlive the module.
  Files* files = nullptr;
};

/// What a caller may choose of a module.
struct ModuleOptions {
  /// Who runs communication, and when; of the host only.
  StreamMode streams = StreamMode::inline_run;
  std::uint64_t seed = 0;                    // of the random order of StreamMode::shuffled
  std::uint64_t rounding_seed = 0;           // of stochastic rounding; see Precision
  UserCode user_code = UserCode::on_caller;  // of the host only
  /// The most micro-steps that one step may have. Schedules are built in storage reserved for it.
  std::size_t max_micro_steps = 16;
  /// Orders of computing of the caller's own that steps and evaluations will follow, read when the
  /// module is made: memory is reserved for what they need. A step may follow any other program
  /// that needs no more, such as the usual units in another order.
  std::span<const Program> programs{};
  /// Fills released slots and all padding with NaN, so that a use of either shows.
  bool poison = false;
  /// Notes when each step of the schedule begins and ends; see ShardedModule::spans.
  bool record_spans = false;
  /// How long one wait may last before it is an error.
  std::chrono::milliseconds time_limit{30'000};
  /// Streams of the caller's, by StreamId, on a CUDA device; null: the module makes its own. On the
  /// compute stream, unit.stream(), the caller's kernels run. They must outlive the module.
  std::array<CUstream_st*, stream_count> cuda_streams{};
  /// Names the time of each unit in a profiler (NVTX), on a CUDA device.
  bool profile = false;
  /// Memory of the caller's for all buffers, at least bytes_needed(...), aligned to 64 bytes; it
  /// must outlive the module. Empty: the module allocates.
  std::span<std::byte> memory{};
  /// What the loss is multiplied with, see TrainingStep::loss_scale: LossScale{...} follows
  /// overflows, LossScale::fixed(s) stays; without it there is none.
  LossScale loss_scale = LossScale::fixed(1);
  /// Of which order the norm of the gradient is: 2, another number from 1, or infinity.
  double norm = 2;
  /// Where optimizer state is kept by a stage that keeps it in a file.
  OffloadPlace offload{};
};

/// What a caller may choose of a training step.
struct StepOptions {
  std::size_t micro_steps = 1;  // how many it has
  /// The order in which this step computes, with its own number of micro-steps; null for the usual
  /// one. It is read by begin_step, planned and proved anew where it is another one than that of
  /// the step before, and then compared across the ranks.
  const Program* program = nullptr;
};

/// What a caller may choose of an evaluation.
struct EvaluationOptions {
  /// The same for an evaluation, such as some of the units only.
  const Program* program = nullptr;
};

/// What a caller may choose of the end of a step.
struct FinishOptions {
  /// What the sum over ranks and micro-steps is divided by, besides the loss scale; 0 stands for
  /// the number of ranks, 1 is a plain sum. A weighted mean divides by the sum of the weights, such
  /// as the tokens of all ranks.
  double divisor = 0;
  /// Gradients are scaled by max_norm / norm when their norm is larger, otherwise left alone.
  double max_norm = std::numeric_limits<double>::infinity();
};

/// What a training step did. The same on all ranks.
struct [[nodiscard]] StepResult {
  bool applied = false;   // false: some gradient was not finite, and nothing was changed
  double norm = 0;        // of the gradient after the division, before clipping; or infinity
  std::int64_t step = 0;  // applied steps so far
  double loss_scale = 1;  // that this step's gradients were produced with
  /// Whether nothing was changed.
  bool skipped() const { return !applied; }
};

}  // namespace zero
