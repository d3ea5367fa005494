// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The record of a step as plain data, and the steps from the ranks' notes to the decision: the same
// code for the host and for a device. May include base/, layout/ and optim/.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <zero/base/host_device.hpp>
#include <zero/layout/tensor_range.hpp>
#include <zero/module/control_block.hpp>
#include <zero/optim/loss_scale.hpp>
#include <zero/optim/norm.hpp>
#include <zero/optim/stochastic.hpp>
#include <zero/optim/update.hpp>

namespace zero {

/// What all worlds along the further axes have in common.
struct ControlHead {
  double norm = 0;                                     // of order 2: the sum of squares
  double not_finite = 0, failed = 0, disagreeing = 0;  // on how many ranks
  double options = 0;                                  // how the step is finished
};

/// What all ranks decided.
struct ControlDecision {
  static constexpr unsigned long long nowhere = ~0ULL - 1;  // nothing differs

  bool applied = false, agreed = true, at_floor = false;  // whether the step is, and may be
  double norm = 0, divisor = 1, clip = 1, scale = 1;      // what the updates are done with
  double failed = 0;                                      // see ControlHead
  unsigned long long disagreement = nowhere;  // the first trace that differs, or their number
};

/// The numbers of one step, and of what is kept from step to step.
struct ControlRecord {
  // How the step is to be finished; see Control::finish.
  double divisor = 1;         // times the loss scale
  double max_norm = 0;        // the limit of the norm
  LossScale scaling{};        // how the loss scale moves
  std::uint32_t options = 0;  // a hash of what finish() was passed
  std::uint32_t failed = 0;   // this rank cannot finish it
  // Kept.
  std::int64_t step = 0;   // how many steps were applied
  LossScaleState scale{};  // the loss scale and its counts
  // What came of it; `update` is the part of it that updates need.
  ControlHead head{};          // what the ranks summed up
  ControlDecision decision{};  // what follows from it
  UpdateDecision update{};     // the same for updates
};

/// One of several threads that share the work of a function: those of a block on a device, or one.
struct ThreadOf {
  std::size_t index = 0, count = 1;  // which of how many threads
};

/// Where the parts of a Control lie in one block of memory, and what is done with them.
///
/// Order:   begin_pack, write_block, the sum over ranks, read_notes, read_head, the same for each
///          further axis, decide, count_updates. What takes a ThreadOf is called by all threads,
///          the others by one; between two functions the threads wait for each other.
struct ControlView {
  static constexpr std::size_t alignment = 64;  // of each array
  static constexpr double largest =
      std::numeric_limits<float>::max();  // that a norm or divisor may be
  /// The norm of what is not finite.
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  /// What a rank adds to ControlHead::failed whose offloaded state failed, and whose is torn; more
  /// than all ranks together add for less.
  static constexpr double state_failed = 0x1p20;  // a rank could not move its optimizer state
  static constexpr double state_torn = 0x1p40;    // and parts of the model were updated before

  // What a host sends to a device before a step, of which `kept` bytes come back after it.
  ControlRecord* record = nullptr;    // what is not an array
  std::uint8_t* present = nullptr;    // [tensor] has a gradient on any rank
  std::int64_t* counters = nullptr;   // [tensor] updates
  std::uint32_t* traces = nullptr;    // [unit][forward, backward], and the optimizer
  std::uint8_t* noted = nullptr;      // [tensor] has a gradient on this rank
  std::byte* coefficients = nullptr;  // [tensor] of the optimizer, if the step is applied
  RandomBits* random = nullptr;       // [tensor] of stochastic rounding, if the step is applied
  TensorRange* ranges = nullptr;      // [tensor] group by group, in order
  // What only the device that decides has.
  double* norms = nullptr;                                          // [group]
  double* block = nullptr;                                          // what ranks sum
  double* scratch = nullptr;                                        // room for sums
  std::size_t trace_count = 0, tensors = 0, groups = 0, ranks = 1;  // lengths of the arrays
  double order = 2;                                                 // of the norm

  /// Cuts a block of memory, which it neither reads nor writes; null to learn the sizes only.
  ControlView(std::byte* memory, const ControlShape& shape)
      : trace_count(shape.traces()),
        tensors(shape.tensors),
        groups(shape.groups),
        ranks(shape.ranks),
        order(shape.norm) {
    std::size_t used = 0;
    const auto take = [&]<class T>(T*& to, std::size_t count) {
      if (memory != nullptr) to = reinterpret_cast<T*>(memory + used);
      used += (count * sizeof(T) + alignment - 1) / alignment * alignment;
    };
    take(record, 1);
    take(present, tensors);
    take(counters, tensors);
    kept_bytes_ = used;
    take(traces, trace_count);
    take(noted, tensors);
    take(coefficients, tensors * shape.coefficient_bytes);
    take(random, tensors);
    take(ranges, tensors);
    mirrored_bytes_ = used;
    take(norms, groups);
    take(block, shape.block());
    take(scratch, shape.scratch);
    bytes_ = used;
  }
  /// Bytes of everything.
  std::size_t bytes() const { return bytes_; }
  /// Bytes, from the beginning, that are sent to a device before a step.
  std::size_t mirrored_bytes() const { return mirrored_bytes_; }
  /// Bytes, from the beginning, that come back.
  std::size_t kept_bytes() const { return kept_bytes_; }

  /// Adds up this rank's part of the norm. Replicas hold the same gradients: only one of them
  /// contributes to it. A rank that failed makes all ranks skip.
  ZERO_HOST_DEVICE void begin_pack(bool contributes_norm, double failed) const {
    double sum = 0;
    bool finite = true;
    for (std::size_t g = 0; g < groups; ++g) {
      finite = finite && std::isfinite(norms[g]);
      sum += norms[g];
    }
    if (order != 2 && finite) sum = norm_of(order, norms, groups);
    record->decision = {};
    record->update = {};
    ControlHead head;
    head.norm = contributes_norm && finite ? sum : 0;
    head.not_finite = finite ? 0 : 1;
    head.failed = failed + record->failed;
    head.options = record->options;
    record->head = head;
  }
  /// Writes the head, a rank's part of the norm and, with `notes`, what this rank says of the step
  /// into `size` numbers. A norm of another order than 2 does not add: each rank has a place for
  /// its own.
  ZERO_HOST_DEVICE void write_block(std::size_t rank, std::size_t of_ranks, std::size_t size,
                                    bool notes, ThreadOf thread) const {
    const ControlHead head = record->head;
    const double numbers[] = {head.not_finite, head.failed, head.disagreeing, head.options,
                              head.options * head.options};
    constexpr std::size_t begin = ControlShape::head;
    static_assert(sizeof(numbers) == begin * sizeof(double));
    const std::size_t end = begin + (order == 2 ? 1 : of_ranks);
    const std::size_t own = begin + (order == 2 ? 0 : rank);
    for (std::size_t i = thread.index; i < size; i += thread.count) {
      double number = i < begin ? numbers[i] : i == own ? head.norm : 0;
      if (notes && i >= end) number = note(i - end);
      block[i] = number;
    }
  }
  /// Reads the sum over the world: whether all ranks ran the same (each trace has no variance), and
  /// which tensors have a gradient on any of them.
  ZERO_HOST_DEVICE void read_notes(ThreadOf thread) const {
    const double* const at = block + ControlShape::head + (order == 2 ? 1 : ranks);
    for (std::size_t i = thread.index; i < trace_count; i += thread.count) {
      const double sum = at[2 * i], squares = at[2 * i + 1];
      if (sum * sum != static_cast<double>(ranks) * squares) lower_disagreement(i);
    }
    for (std::size_t t = thread.index; t < tensors; t += thread.count) {
      present[t] = at[2 * trace_count + t] != 0;
    }
  }
  /// Reads the rest of a sum over the world, or over a further axis.
  ZERO_HOST_DEVICE void read_head(std::size_t of_ranks, bool of_world) const {
    ControlHead head;
    head.not_finite = block[0];
    head.failed = block[1];
    const double count = static_cast<double>(of_ranks);
    head.disagreeing = block[2] + (block[3] * block[3] != count * block[4] ? 1 : 0);
    head.options = block[3] / count;
    const double* const parts = block + ControlShape::head;
    head.norm = order == 2 ? *parts : norm_of(order, parts, of_ranks);
    if (of_world) {
      unsigned long long& where = record->decision.disagreement;
      constexpr unsigned long long none = ControlDecision::nowhere;
      if (where == none && head.disagreeing != 0) where = trace_count;  // the options
      // What a rank that failed did not come to say is no difference.
      if (head.failed != 0 && where + 1 >= trace_count) where = none;
      head.disagreeing = where == none ? 0 : 1;
    }
    record->head = head;
  }
  /// Whether the step applies, and by what it scales.
  ZERO_HOST_DEVICE void decide() const {
    const ControlHead& head = record->head;
    ControlDecision made = record->decision;
    made.divisor = record->divisor;
    made.norm =
        order == 2 ? std::sqrt(head.norm / made.divisor / made.divisor) : head.norm / made.divisor;
    // A larger norm than this may be finite and yet have an element that is not, once divided.
    const bool finite = head.not_finite == 0 && head.failed == 0 && made.norm <= largest;
    if (!finite) made.norm = infinity;
    made.clip = made.norm > record->max_norm ? record->max_norm / made.norm : 1;
    made.failed = head.failed;
    made.agreed = head.disagreeing == 0;
    made.scale = record->scale.scale;
    made.applied = finite && made.agreed;
    const LossScale& scaling = record->scaling;
    if (made.applied) {
      record->scale = scaling.after_good_step(record->scale, made.divisor / made.scale);
      ++record->step;
    } else if (made.agreed && head.failed == 0) {
      made.at_floor = scaling.at_floor(record->scale);
      if (!made.at_floor) record->scale = scaling.after_overflow(record->scale);
    }
    record->decision = made;
    record->update = {made.applied ? 1 : 0, static_cast<float>(made.divisor),
                      static_cast<float>(made.clip)};
  }
  /// Counts the updates of all tensors, and the step.
  ZERO_HOST_DEVICE void count_updates(ThreadOf thread) const {
    if (!record->decision.applied) return;
    for (std::size_t t = thread.index; t < tensors; t += thread.count) {
      if (present[t] != 0) ++counters[t];
    }
  }

 private:
  /// What this rank says: each trace and its square, then which tensors have a gradient.
  ZERO_HOST_DEVICE double note(std::size_t i) const {
    if (i < 2 * trace_count) {
      const double trace = traces[i / 2];
      return i % 2 == 0 ? trace : trace * trace;
    }
    const std::size_t tensor = i - 2 * trace_count;
    return tensor < tensors && noted[tensor] != 0 ? 1 : 0;
  }
  ZERO_HOST_DEVICE void lower_disagreement(unsigned long long trace) const {
    unsigned long long& least = record->decision.disagreement;
#ifdef __CUDA_ARCH__
    atomicMin(&least, trace);
#else
    if (trace < least) least = trace;
#endif
  }

  std::size_t bytes_ = 0, mirrored_bytes_ = 0, kept_bytes_ = 0;
};

}  // namespace zero
