// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What decides whether and how a step is applied: norm, finite check, loss scale, agreement of the
// ranks. May include optim/ and schedule/.
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/module/control_block.hpp>
#include <zero/optim/loss_scale.hpp>
#include <zero/schedule/hash.hpp>
#include <zero/schedule/step.hpp>

namespace zero {

/// The record that all ranks sum once per step, and the decision that each of them takes from the
/// sum.
///
/// A rank notes which units it ran and which tensors have gradients; `pack` writes that and its
/// part of the norm into one block of doubles; the sum of the blocks over all ranks tells whether
/// all ranks ran the same (variance zero), which tensors have a gradient on any rank, whether one
/// is not finite, and the norm. Over each further axis of the mesh the head of the block is summed
/// again. All arithmetic is exact except the norm, which is formed in rank order.
///
/// Order:   notes are written by the host between the begin and the end of a step; pack, decide and
/// what lies between run on the stream of Op::combine, and updates read the decision after it.
class Control {
 public:
  /// `block` [shape.block()] and `norms` [groups] are buffers that outlive this object.
  ///
  /// Errors:  ContractError for an order of the norm or a loss scale that makes no sense.
  Control(std::span<double> block, std::span<double> norms, ControlShape shape,
          const LossScale& scaling = LossScale::fixed(1))
      : block_(block),
        norms_(norms),
        shape_(std::move(shape)),
        scaling_(scaling),
        ran_(2 * shape_.units + 1, 0),
        noted_(shape_.tensors, false),
        present_(shape_.tensors, false),
        counters_(shape_.tensors, 0),
        scale_(scaling.begin()) {
    NormPart::check_order(shape_.norm);
    scaling_.check();
    for (double& norm : norms_) norm = 0;
  }
  double norm_order() const { return shape_.norm; }

  // Notes of this rank.
  void begin_step() {
    for (std::uint32_t& trace : ran_) trace = 0;
    noted_.assign(noted_.size(), false);
    failed_ = false;
  }
  /// Order matters, so that two ranks agree only if they ran the same in the same micro-steps.
  void ran(std::size_t unit, Op op, std::size_t micro_step) {
    std::uint32_t& trace = ran_[2 * unit + (op == Op::backward)];
    trace = (trace * 647'993 + static_cast<std::uint32_t>(micro_step) + 1) % trace_limit;
  }
  /// What the step is to be finished with; `optimizer` stands for the optimizer's settings in it.
  ///
  /// Errors:  ContractError for a divisor that is no positive float, or a limit that is no limit.
  void finish(double divisor, double max_norm, std::uint64_t optimizer = 0) {
    const double scaled = divisor * scale_.scale;
    if (!(divisor >= smallest && divisor <= largest && scaled >= smallest && scaled <= largest)) {
      throw ContractError("zero: finish: the divisor is " + std::to_string(divisor) +
                          (scale_.scale == 1
                               ? std::string()
                               : " with a loss scale of " + std::to_string(scale_.scale)) +
                          "; pass a positive number, or 0 for the number of ranks");
    }
    if (!(max_norm >= 0)) {
      throw ContractError("zero: finish: max_norm is " + std::to_string(max_norm) +
                          "; pass a positive number, or leave it out");
    }
    wanted_divisor_ = scaled;
    wanted_max_norm_ = max_norm;
    Hasher options;
    for (const double number : {divisor, max_norm, shape_.norm, scale_.scale, scaling_.floor,
                                scaling_.growth, scaling_.backoff}) {
      options.mix(std::bit_cast<std::uint64_t>(number));
    }
    for (const std::int64_t count : {step_, scale_.good_steps, scale_.overflows,
                                     scaling_.growth_interval, scaling_.hysteresis}) {
      options.mix(static_cast<std::uint64_t>(count));
    }
    options_ = static_cast<std::uint32_t>(options.value() % trace_limit);
    ran_.back() = static_cast<std::uint32_t>(optimizer % trace_limit);
  }
  void has_gradient(std::size_t tensor) { noted_[tensor] = true; }
  bool noted(std::size_t tensor) const { return noted_[tensor]; }
  /// This rank cannot finish the step: all ranks are to skip it.
  void fail() { failed_ = true; }

  // On the stream of Op::combine.
  /// This rank's part of the norm of one group, as NormPart gives it.
  void set_norm(std::size_t group, double part) { norms_[group] = part; }
  /// Replicas hold the same gradients: only one of them contributes to the norm. A rank whose
  /// gradients are incomplete, since computing them failed, makes all ranks skip.
  void pack(std::size_t rank, bool contributes_norm, bool failed) {
    double sum = 0;
    bool finite = true;
    for (const double norm : norms_) {
      finite = finite && std::isfinite(norm);
      sum += norm;
    }
    if (shape_.norm != 2 && finite) sum = norm_of(shape_.norm, norms_.data(), norms_.size());
    decision_ = {};
    Head head;
    head.norm = contributes_norm && finite ? sum : 0;
    head.not_finite = finite ? 0 : 1;
    head.failed = failed || failed_ ? 1 : 0;
    head.options = options_;
    double* at = pack_head(head, rank, shape_.ranks, block());
    for (const double trace : ran_) {
      *at++ = trace;
      *at++ = trace * trace;
    }
    for (const bool noted : noted_) *at++ = noted ? 1 : 0;
  }
  std::span<double> block() { return block_.first(shape_.world_block()); }
  /// Reads the sum over the world.
  void read() {
    const double* at = read_head(shape_.ranks);
    const double ranks = static_cast<double>(shape_.ranks);
    std::size_t& where = decision_.disagreement;
    for (std::size_t i = 0; i < ran_.size(); ++i, at += 2) {
      if (at[0] * at[0] != ranks * at[1] && where == nowhere) where = i;
    }
    if (where == nowhere && head_.disagreeing != 0) where = ran_.size();  // the options
    // What a rank that failed did not come to say is no difference.
    if (head_.failed != 0 && where + 1 >= ran_.size()) where = nowhere;
    head_.disagreeing = where == nowhere ? 0 : 1;
    for (std::size_t t = 0; t < present_.size(); ++t) present_[t] = at[t] != 0;
  }
  /// Begins the sum over a further axis, of what the worlds along it have in common.
  void pack_axis(std::size_t axis, std::size_t rank) {
    pack_head(head_, rank, shape_.axes[axis], axis_block(axis));
  }
  std::span<double> axis_block(std::size_t axis) { return block_.first(shape_.axis_block(axis)); }
  void read_axis(std::size_t axis) { read_head(shape_.axes[axis]); }
  void decide() {
    Decision& made = decision_;
    made.divisor = wanted_divisor_;
    made.norm = shape_.norm == 2 ? std::sqrt(head_.norm / made.divisor / made.divisor)
                                 : head_.norm / made.divisor;
    // A larger norm than this may be finite and yet have an element that is not, once divided.
    const bool finite = head_.not_finite == 0 && head_.failed == 0 && made.norm <= largest;
    if (!finite) made.norm = std::numeric_limits<double>::infinity();
    made.clip = made.norm > wanted_max_norm_ ? wanted_max_norm_ / made.norm : 1;
    made.agreed = head_.disagreeing == 0;
    made.scale = scale_.scale;
    made.applied = finite && made.agreed;
    if (made.applied) {
      scale_ = scaling_.after_good_step(scale_);
    } else if (made.agreed && head_.failed == 0) {
      made.at_floor = scaling_.at_floor(scale_);
      if (!made.at_floor) scale_ = scaling_.after_overflow(scale_);
    }
    if (!made.applied) return;
    for (std::size_t t = 0; t < present_.size(); ++t) {
      if (present_[t]) ++counters_[t];
    }
    ++step_;
  }

  // The decision.
  bool applied() const { return decision_.applied; }
  double norm() const { return decision_.norm; }
  /// What the sum of the gradients is divided by: the divisor times the loss scale.
  double divisor() const { return decision_.divisor; }
  double clip() const { return decision_.clip; }
  bool present(std::size_t tensor) const { return present_[tensor]; }
  /// The loss scale that the gradients of this step were produced with.
  double used_scale() const { return decision_.scale; }
  /// Whether a gradient was not finite though the loss scale could not be smaller.
  bool at_floor() const { return decision_.at_floor; }
  bool agreed() const { return decision_.agreed; }
  /// Where the ranks of this world differ; if nowhere, those of another axis do.
  bool world_differs() const { return decision_.disagreement != nowhere; }
  bool options_differ() const { return decision_.disagreement == ran_.size(); }
  bool optimizers_differ() const { return decision_.disagreement + 1 == ran_.size(); }
  std::size_t disagreeing_unit() const { return decision_.disagreement / 2; }
  Op disagreeing_op() const { return decision_.disagreement % 2 == 0 ? Op::forward : Op::backward; }

  // What is kept from step to step: applied steps, updates of each tensor, and the loss scale.
  std::int64_t step() const { return step_; }
  void set_step(std::int64_t step) { step_ = counted("set_step", step); }
  std::int64_t counter(std::size_t tensor) const { return counters_[tensor]; }
  void set_counter(std::size_t tensor, std::int64_t counter) {
    counters_[tensor] = counted("set_counter", counter);
  }
  const LossScale& scaling() const { return scaling_; }
  const LossScaleState& loss_scale() const { return scale_; }
  void set_loss_scale(const LossScaleState& state) {
    scaling_.check(state);
    scale_ = state;
  }

 private:
  static constexpr std::size_t nowhere = ~std::size_t{0} - 1;
  static constexpr std::uint32_t trace_limit = 1U
                                               << 20;  // squares summed over 8192 ranks are exact
  static constexpr double smallest = std::numeric_limits<float>::min();
  static constexpr double largest = std::numeric_limits<float>::max();

  /// What all worlds along the further axes have in common.
  struct Head {
    double norm = 0;                                     // of order 2: the sum of squares
    double not_finite = 0, failed = 0, disagreeing = 0;  // on how many ranks
    double options = 0;                                  // how the step is finished
  };
  struct Decision {
    bool applied = false, agreed = true, at_floor = false;
    double norm = 0, divisor = 1, clip = 1, scale = 1;
    std::size_t disagreement = nowhere;
  };

  /// A norm of another order than 2 does not add: each rank has a place for its own.
  double* pack_head(const Head& head, std::size_t rank, std::size_t ranks,
                    std::span<double> block) const {
    for (double& number : block) number = 0;
    const double numbers[] = {head.not_finite, head.failed, head.disagreeing, head.options,
                              head.options * head.options};
    double* at = block.data();
    for (const double number : numbers) *at++ = number;
    static_assert(std::size(numbers) == ControlShape::head);
    at[shape_.norm == 2 ? 0 : rank] = head.norm;
    return at + shape_.parts(ranks);
  }
  const double* read_head(std::size_t ranks) {
    const double* at = block_.data();
    head_.not_finite = at[0];
    head_.failed = at[1];
    const double count = static_cast<double>(ranks);
    head_.disagreeing = at[2] + (at[3] * at[3] != count * at[4] ? 1 : 0);
    head_.options = at[3] / count;
    at += ControlShape::head;
    head_.norm = shape_.norm == 2 ? *at : norm_of(shape_.norm, at, shape_.parts(ranks));
    return at + shape_.parts(ranks);
  }
  static std::int64_t counted(const char* call, std::int64_t count) {
    if (count >= 0) return count;
    throw ContractError(std::string("zero: ") + call + ": expected a count from 0, got " +
                        std::to_string(count));
  }

  std::span<double> block_, norms_;
  ControlShape shape_;
  LossScale scaling_;
  std::vector<std::uint32_t> ran_;  // [unit][forward, backward], and the optimizer
  std::uint32_t options_ = 0;
  std::vector<bool> noted_, present_;
  std::vector<std::int64_t> counters_;
  std::int64_t step_ = 0;
  LossScaleState scale_;
  Head head_;
  Decision decision_;
  double wanted_divisor_ = 1, wanted_max_norm_ = 0;
  bool failed_ = false;
};

}  // namespace zero
