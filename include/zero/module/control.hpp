// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What decides whether and how a step is applied: norm, finite check, loss scale, agreement of the
// ranks. May include optim/ and schedule/.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/module/control_block.hpp>
#include <zero/module/control_view.hpp>
#include <zero/optim/loss_scale.hpp>
#include <zero/schedule/hash.hpp>
#include <zero/schedule/step.hpp>

namespace zero {

/// What the user's code told a step, to be told again.
struct StepNotes {
  List<std::uint32_t> traces;  // [unit][forward, backward] what ran
  List<std::uint8_t> noted;    // [tensor] whether it got a gradient
};

/// The record that all ranks sum once per step, and the decision that each of them takes from the
/// sum.
///
/// A rank notes which units it ran and which tensors have gradients; that and its part of the norm
/// become one block of doubles; the sum of the blocks over all ranks tells whether all ranks ran
/// the same (variance zero), which tensors have a gradient on any rank, whether one is not finite,
/// and the norm. Over each further axis of the mesh the head of the block is summed again. All
/// arithmetic is exact except the norm, which is formed in rank order.
///
/// There are two copies: `staged()` is the host's, which notes and reads; `live()` lies where the
/// work of the step runs, in its order. The first becomes the second before a step is decided, and
/// what came of it goes back.
///
/// Order:   notes are written by the host between the begin and the end of a step, and reach the
/// staged copy in finish(), when the decision of the step before must have come back; pack, decide
/// and what lies between run on the stream of Op::combine, and updates read the decision after it.
class Control {
 public:
  /// Bytes of the live copy.
  static std::size_t bytes(const ControlShape& shape) {
    return ControlView(nullptr, shape).bytes();
  }
  /// `staged` [mirrored_bytes(shape)] and `live` [bytes(shape)] are buffers that outlive this
  /// object; on the host, `staged` may be empty: then it has its own.
  ///
  /// Errors:  ContractError for an order of the norm or a loss scale that makes no sense.
  Control(std::span<std::byte> live, ControlShape shape,
          const LossScale& scaling = LossScale::fixed(1), std::span<std::byte> staged = {})
      : shape_(std::move(shape)),
        own_(staged.empty() ? ControlView(nullptr, shape_).mirrored_bytes() : 0),
        live_(live.data(), shape_),
        staged_(staged.empty() ? own_.data() : staged.data(), shape_) {
    NormPart::check_order(shape_.norm);
    scaling.check();
    std::memset(staged_bytes(), 0, live_.mirrored_bytes());
    notes_ = {List<std::uint32_t>(staged_.trace_count), List<std::uint8_t>(staged_.tensors)};
    record() = ControlRecord{};
    record().scaling = scaling;
    record().scale = scaling.begin();
  }
  /// Bytes that are copied between host and device.
  static std::size_t mirrored_bytes(const ControlShape& shape) {
    return ControlView(nullptr, shape).mirrored_bytes();
  }
  /// Says where tensors lie, group by group; once, before the first step.
  void add_range(const TensorRange& range, bool begins_group) {
    if (begins_group) first_range_.push_back(ranges_);
    staged_.ranges[ranges_++] = range;
  }
  /// Where the ranges of a group begin in the live copy.
  const TensorRange* live_ranges(std::size_t group) const {
    return live_.ranges + first_range_[group];
  }
  /// Of which order the norm is.
  double norm_order() const { return shape_.norm; }
  /// The numbers of what it holds.
  const ControlShape& shape() const { return shape_; }
  /// On the host, filled while a step runs.
  const ControlView& staged() const { return staged_; }
  /// Where collectives and kernels work.
  const ControlView& live() const { return live_; }
  /// Where each copy begins.
  std::byte* staged_bytes() const { return reinterpret_cast<std::byte*>(staged_.record); }
  /// The same as bytes.
  std::byte* live_bytes() const { return reinterpret_cast<std::byte*>(live_.record); }

  // Notes of this rank.
  /// Forgets the notes of the step before.
  void begin_step() {
    std::fill(notes_.traces.begin(), notes_.traces.end(), 0U);
    std::fill(notes_.noted.begin(), notes_.noted.end(), std::uint8_t{0});
    failed_ = false;
  }
  /// Order matters, so that two ranks agree only if they ran the same in the same micro-steps.
  void ran(std::size_t unit, Op op, std::size_t micro_step) {
    std::uint32_t& trace = notes_.traces[2 * unit + (op == Op::backward)];
    trace = (trace * 647'993 + static_cast<std::uint32_t>(micro_step) + 1) % trace_limit;
  }
  /// What the step is to be finished with; `optimizer` stands for the optimizer's settings in it.
  ///
  /// Errors:  ContractError for a divisor that is no positive float, or a limit that is no limit.
  void finish(double divisor, double max_norm, std::uint64_t optimizer = 0) {
    const LossScaleState& scale = loss_scale();
    const double scaled = divisor * scale.scale;
    if (!(divisor >= smallest && divisor <= largest && scaled >= smallest && scaled <= largest)) {
      throw ContractError("zero: finish: the divisor is " + std::to_string(divisor) +
                          (scale.scale == 1
                               ? std::string()
                               : " with a loss scale of " + std::to_string(scale.scale)) +
                          "; pass a positive number, or 0 for the number of ranks");
    }
    if (!(max_norm >= 0)) {
      throw ContractError("zero: finish: max_norm is " + std::to_string(max_norm) +
                          "; pass a positive number, or leave it out");
    }
    std::copy(notes_.traces.begin(), notes_.traces.end(), staged_.traces);
    std::copy(notes_.noted.begin(), notes_.noted.end(), staged_.noted);
    record().failed = failed_ ? 1 : 0;
    record().divisor = scaled;
    record().max_norm = max_norm;
    record().decision = {};
    Hasher options;
    for (const double number : {divisor, max_norm, shape_.norm, scale.scale, scaling().floor,
                                scaling().growth, scaling().backoff}) {
      options.mix(std::bit_cast<std::uint64_t>(number));
    }
    for (const std::int64_t count : {step(), scale.good_steps, scale.overflows,
                                     scaling().growth_interval, scaling().hysteresis}) {
      options.mix(static_cast<std::uint64_t>(count));
    }
    record().options = static_cast<std::uint32_t>(options.value() % trace_limit);
    staged_.traces[staged_.trace_count - 1] = static_cast<std::uint32_t>(optimizer % trace_limit);
  }
  /// Notes that a tensor got a gradient.
  void has_gradient(std::size_t tensor) { notes_.noted[tensor] = 1; }
  /// All notes, to be kept with a captured step.
  const StepNotes& notes() const { return notes_; }
  /// Puts them back.
  void set_notes(const StepNotes& notes) { notes_ = notes; }
  /// Whether a tensor got a gradient.
  bool noted(std::size_t tensor) const { return notes_.noted[tensor] != 0; }
  /// This rank cannot finish the step: all ranks are to skip it.
  void fail() { failed_ = true; }
  /// Writes what the optimizer makes of each tensor's next update.
  template <class Coefficients>
  void set_coefficients(std::size_t tensor, const Coefficients& coefficients,
                        const RandomBits& random) {
    std::memcpy(staged_.coefficients + tensor * sizeof(Coefficients), &coefficients,
                sizeof(Coefficients));
    staged_.random[tensor] = random;
  }

  // On the stream of Op::combine, of a host.
  /// This rank's part of the norm of one group, as NormPart gives it.
  void set_norm(std::size_t group, double part) { live_.norms[group] = part; }
  /// Writes what this rank has to say into the block.
  void pack(std::size_t rank, bool contributes_norm, double failed) {
    std::memcpy(live_bytes(), staged_bytes(), live_.mirrored_bytes());
    live_.begin_pack(contributes_norm, failed);
    live_.write_block(rank, shape_.ranks, shape_.world_block(), true, {});
  }
  /// What all ranks sum up.
  std::span<double> block() { return {live_.block, shape_.world_block()}; }
  /// Reads the sum over the world.
  void read() {
    live_.read_notes({});
    live_.read_head(shape_.ranks, true);
  }
  /// Begins the sum over a further axis, of what the worlds along it have in common.
  void pack_axis(std::size_t axis, std::size_t rank) {
    live_.write_block(rank, shape_.axes[axis], shape_.axis_block(axis), false, {});
  }
  /// What ranks of a further axis sum up.
  std::span<double> axis_block(std::size_t axis) { return {live_.block, shape_.axis_block(axis)}; }
  /// Takes what they summed up.
  void read_axis(std::size_t axis) { live_.read_head(shape_.axes[axis], false); }
  /// Whether the step applies, and by what it scales.
  void decide() {
    live_.decide();
    live_.count_updates({});
    std::memcpy(staged_bytes(), live_bytes(), live_.kept_bytes());
  }

  // The decision.
  /// The decision.
  bool applied() const { return decision().applied; }
  /// Of the gradient, before clipping.
  double norm() const { return decision().norm; }
  /// What the sum of the gradients is divided by: the divisor times the loss scale.
  double divisor() const { return decision().divisor; }
  /// What gradients are multiplied with.
  double clip() const { return decision().clip; }
  /// Whether any rank has a gradient for a tensor.
  bool present(std::size_t tensor) const { return staged_.present[tensor] != 0; }
  /// The loss scale that the gradients of this step were produced with.
  double used_scale() const { return decision().scale; }
  /// Whether a gradient was not finite though the loss scale could not be smaller.
  bool at_floor() const { return decision().at_floor; }
  /// Whether offloaded state of a rank could not be fetched or stored.
  bool state_failed() const { return decision().failed >= ControlView::state_failed; }
  /// Whether a rank lost optimizer state in the middle of its updates.
  bool state_torn() const { return decision().failed >= ControlView::state_torn; }
  /// Whether all ranks ran and passed the same.
  bool agreed() const { return decision().agreed; }
  /// Where the ranks of this world differ; if nowhere, those of another axis do.
  bool world_differs() const { return decision().disagreement != ControlDecision::nowhere; }
  /// Whether they passed different options.
  bool options_differ() const { return decision().disagreement == staged_.trace_count; }
  /// Whether their optimizers have different settings.
  bool optimizers_differ() const { return decision().disagreement + 1 == staged_.trace_count; }
  /// The unit that ran differently.
  std::size_t disagreeing_unit() const { return decision().disagreement / 2; }
  /// The pass in which it did.
  Op disagreeing_op() const {
    return decision().disagreement % 2 == 0 ? Op::forward : Op::backward;
  }

  // What is kept from step to step: applied steps, updates of each tensor, and the loss scale.
  /// How many steps were applied.
  std::int64_t step() const { return record().step; }
  /// Sets that.
  void set_step(std::int64_t step) { record().step = counted("set_step", step); }
  /// How often a tensor was updated.
  std::int64_t counter(std::size_t tensor) const { return staged_.counters[tensor]; }
  /// Sets that.
  void set_counter(std::size_t tensor, std::int64_t counter) {
    staged_.counters[tensor] = counted("set_counter", counter);
  }
  /// How the loss scale moves.
  const LossScale& scaling() const { return record().scaling; }
  /// The loss scale and its counts.
  const LossScaleState& loss_scale() const { return record().scale; }
  /// Sets them.
  void set_loss_scale(const LossScaleState& state) {
    scaling().check(state);
    record().scale = state;
  }

 private:
  static constexpr std::uint32_t trace_limit = 1U
                                               << 20;  // squares summed over 8192 ranks are exact
  static constexpr std::int64_t largest_count = std::int64_t{1} << 62U;  // no run gets beyond 2^63
  static constexpr double smallest = std::numeric_limits<float>::min();
  static constexpr double largest = ControlView::largest;

  ControlRecord& record() { return *staged_.record; }
  const ControlRecord& record() const { return *staged_.record; }
  const ControlDecision& decision() const { return record().decision; }

  static std::int64_t counted(const char* call, std::int64_t count) {
    if (count >= 0 && count <= largest_count) return count;
    throw ContractError(std::string("zero: ") + call + ": expected a count from 0 to 2^62, got " +
                        std::to_string(count));
  }

  ControlShape shape_;
  List<std::byte> own_;  // the staged copy, if nobody else has it
  ControlView live_, staged_;
  StepNotes notes_;
  bool failed_ = false;            // the step cannot be finished here
  List<std::size_t> first_range_;  // [group]
  std::size_t ranges_ = 0;
};

}  // namespace zero
