// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trains one small model, over CUDA and over threads of the host: what tests of modules on CUDA
// compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>
#include <zero/module/accounting.hpp>
#include <zero/module/options.hpp>
#include <zero/policy/make_schedule.hpp>
#include <zero/policy/precision.hpp>
#include <zero/schedule/program.hpp>

namespace training {

/// What the user's code of one step does.
struct StepPlan {
  std::size_t micro_steps = 1;
  zero::FinishOptions finish{};
  bool exact = false;         // gradients are small integers, whatever the weights are
  bool not_finite = false;    // rank 0 has a gradient that is infinite
  bool skips_a_unit = false;  // unit 1 does not run, on any rank
  bool forks = false;         // biases have their gradients from a stream of the user's own
  bool waits = true;          // for the decision; else there is no result
  bool undone = false;        // what was held before it is put back as a checkpoint does it
  bool written = false;       // the last unit's moments were set before it
  bool captured = false;  // on CUDA; such steps are captured once and have equal plans but finish
  const zero::Program* program = nullptr;  // the order of its units, if not the usual one
};

struct Setup {
  zero::StageValue stage;
  std::size_t ranks = 2, replicas = 1;
  zero::Precision types{};  // computes in fp32, or in bf16 or fp16
  zero::ModuleOptions options{};
  std::vector<StepPlan> steps{};
  bool freezes = false;  // the first unit, after the first step
  bool leaves = false;   // the last rank, in the backward pass of block.1
};

/// What one rank ends with.
struct Result {
  std::vector<std::uint32_t> bits;  // of all weights, masters and moments
  std::vector<zero::StepResult> steps;
  std::int64_t counter = 0;  // of the second unit's weight
  zero::BytesHeld held, predicted;
  std::size_t device_bytes = 0;  // of CUDA memory, that the module took
  std::size_t more_bytes = 0;    // and what it took since then
  std::string error;             // what was thrown
  friend bool operator==(const Result&, const Result&) = delete;
};

std::vector<Result> on_host(const Setup& setup);
/// Over NCCL, or with all ranks on one device where there are not enough for all.
std::vector<Result> on_cuda(const Setup& setup);
/// What each rank's ShardedOptimizer ends with.
std::vector<std::vector<float>> flat_on_host(std::size_t ranks);
std::vector<std::vector<float>> flat_on_cuda(std::size_t ranks);
/// Where there are not enough devices, leaves one rank, as ranks on one device cannot capture.
void fit_for_capture(Setup& setup);

/// Calls f for each stage, by name, with the replicas of its mesh for four ranks.
void for_each_stage(
    const std::function<void(const char* name, const zero::StageValue&, std::size_t replicas)>& f);

}  // namespace training
