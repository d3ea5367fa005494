// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What decides whether and how a step is applied: norm, finite check, agreement of the ranks.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/schedule/hash.hpp>
#include <zero/schedule/step.hpp>

namespace zero {

/// The record that all ranks sum once per step, and the decision that each of them takes from the
/// sum.
///
/// A rank notes which units it ran and which tensors have gradients; `pack` writes that and its
/// part of the squared norm into one block of doubles; the sum of the blocks over all ranks tells
/// whether all ranks ran the same (variance zero), which tensors have a gradient on any rank, and
/// the squared norm. All arithmetic is exact except the norm, which is summed in rank order.
///
/// Order: notes are written by the host between the begin and the end of a step; pack, decide and
/// what follows run on the stream of Op::combine, and updates read the decision after it.
class Control {
 public:
  /// Numbers in the block: a multiple of the ranks, so that each sums an equal part.
  static constexpr std::size_t block_size(std::size_t units, std::size_t tensors,
                                          std::size_t ranks) {
    return (1 + 2 * (2 * units + 1) + tensors + ranks - 1) / ranks * ranks;
  }

  /// `block` [block_size] and `norms` [groups] are buffers that outlive this object.
  Control(std::span<double> block, std::span<double> norms, std::size_t units, std::size_t tensors)
      : block_(block),
        norms_(norms),
        ran_(2 * units + 1, 0),
        noted_(tensors, false),
        present_(tensors, false),
        counters_(tensors, 0) {
    for (double& norm : norms_) norm = 0;
  }

  // Notes of this rank.
  void begin_step() {
    for (std::uint32_t& trace : ran_) trace = 0;
    noted_.assign(noted_.size(), false);
  }
  /// Order matters, so that two ranks agree only if they ran the same in the same micro-steps.
  void ran(std::size_t unit, Op op, std::size_t micro_step) {
    std::uint32_t& trace = ran_[2 * unit + (op == Op::backward)];
    trace = (trace * 647'993 + static_cast<std::uint32_t>(micro_step) + 1) % trace_limit;
  }
  /// What the step is to be finished with.
  ///
  /// Errors:  ContractError for a divisor that is no positive float, or a limit that is no limit.
  void finish(double divisor, double max_norm) {
    if (!(divisor >= std::numeric_limits<float>::min() && divisor <= largest)) {
      throw ContractError("zero: finish: the divisor is " + std::to_string(divisor) +
                          "; pass a positive number, or 0 for the number of ranks");
    }
    if (!(max_norm >= 0)) {
      throw ContractError("zero: finish: max_norm is " + std::to_string(max_norm) +
                          "; pass a positive number, or leave it out");
    }
    wanted_divisor_ = divisor;
    wanted_max_norm_ = max_norm;
    Hasher hasher;
    hasher.mix(std::bit_cast<std::uint64_t>(divisor));
    hasher.mix(std::bit_cast<std::uint64_t>(max_norm));
    hasher.mix(static_cast<std::uint64_t>(step_));
    ran_.back() = static_cast<std::uint32_t>(hasher.value() % trace_limit);
  }
  void has_gradient(std::size_t tensor) { noted_[tensor] = true; }
  bool noted(std::size_t tensor) const { return noted_[tensor]; }

  // On the stream of Op::combine.
  void set_square_norm(std::size_t group, double value) { norms_[group] = value; }
  /// Replicas hold the same gradients: only one of them contributes to the norm. A rank whose
  /// gradients are incomplete, since computing them failed, makes all ranks skip.
  void pack(bool contributes_norm, bool failed) {
    double sum = 0;
    for (const double norm : norms_) sum += norm;
    block_[0] = failed ? std::numeric_limits<double>::quiet_NaN() : contributes_norm ? sum : 0;
    double* at = block_.data() + 1;
    for (const double trace : ran_) {
      *at++ = trace;
      *at++ = trace * trace;
    }
    for (const bool noted : noted_) *at++ = noted ? 1 : 0;
    std::fill(at, block_.data() + block_.size(), 0.0);
  }
  std::span<double> block() { return block_; }
  void decide(std::size_t world_size) {
    const double ranks = static_cast<double>(world_size);
    disagreement_ = no_disagreement;
    const double* at = block_.data() + 1;
    for (std::size_t i = 0; i < ran_.size(); ++i, at += 2) {
      if (at[0] * at[0] != ranks * at[1] && disagreement_ == no_disagreement) disagreement_ = i;
    }
    divisor_ = wanted_divisor_;
    norm_ = std::sqrt(block_[0] / divisor_ / divisor_);
    // A larger norm than this may be finite and yet have an element that is not, once divided.
    const bool finite = norm_ <= largest;
    if (!finite) norm_ = std::numeric_limits<double>::infinity();
    clip_ = norm_ > wanted_max_norm_ ? wanted_max_norm_ / norm_ : 1;
    applied_ = finite && disagreement_ == no_disagreement;
    for (std::size_t t = 0; t < present_.size(); ++t) {
      present_[t] = at[t] != 0;
      if (applied_ && present_[t]) ++counters_[t];
    }
    if (applied_) ++step_;
  }

  // The decision.
  bool applied() const { return applied_; }
  double norm() const { return norm_; }
  double divisor() const { return divisor_; }
  double clip() const { return clip_; }
  bool present(std::size_t tensor) const { return present_[tensor]; }
  bool agreed() const { return disagreement_ == no_disagreement; }
  bool options_differ() const { return disagreement_ + 1 == ran_.size(); }
  std::size_t disagreeing_unit() const { return disagreement_ / 2; }
  Op disagreeing_op() const { return disagreement_ % 2 == 0 ? Op::forward : Op::backward; }

  // What is kept from step to step: applied steps, and updates of each tensor.
  std::int64_t step() const { return step_; }
  void set_step(std::int64_t step) { step_ = counted("set_step", step); }
  std::int64_t counter(std::size_t tensor) const { return counters_[tensor]; }
  void set_counter(std::size_t tensor, std::int64_t counter) {
    counters_[tensor] = counted("set_counter", counter);
  }

 private:
  static std::int64_t counted(const char* call, std::int64_t count) {
    if (count >= 0) return count;
    throw ContractError(std::string("zero: ") + call + ": expected a count from 0, got " +
                        std::to_string(count));
  }
  static constexpr std::size_t no_disagreement = ~std::size_t{0};
  static constexpr std::uint32_t trace_limit = 1U
                                               << 20;  // squares summed over 8192 ranks are exact
  static constexpr double largest = std::numeric_limits<float>::max();

  std::span<double> block_, norms_;
  std::vector<std::uint32_t> ran_;  // [unit][forward, backward], and how the step is finished
  std::vector<bool> noted_, present_;
  std::vector<std::int64_t> counters_;
  std::int64_t step_ = 0;
  std::size_t disagreement_ = no_disagreement;
  double norm_ = 0, divisor_ = 1, clip_ = 1;
  double wanted_divisor_ = 1, wanted_max_norm_ = 0;
  bool applied_ = false;
};

}  // namespace zero
