// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// HeldState: what a rank holds of a model's named tensors; all that a checkpoint knows of a module.
// May include base/ and layout/.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <zero/base/element.hpp>
#include <zero/base/list.hpp>
#include <zero/layout/tensor.hpp>

namespace zero {

/// Elements of a tensor that lie in this rank's memory without a gap.
struct HeldRange {
  std::uint64_t begin = 0, count = 0;  // within the tensor
  void* data = nullptr;                // the first of its elements
};

/// One number for each element of a tensor: its weights, or a state of the optimizer.
struct HeldPart {
  std::string name;                // "weight", "state.0", ...
  DataType type = DataType::fp32;  // of each element
  List<HeldRange> ranges{};        // what this rank holds
  /// How many ranks hold these same elements, which together they write once.
  std::size_t holders = 1;
  std::size_t holder = 0;  // which of them this one is
  /// Weights that compute, made by rounding from the master weights that `ranges` are.
  DataType copy_type = DataType::fp32;
  List<HeldRange> copies{};  // where those are
  /// A type of fewer bits in which all these elements are exact: what is gathered in it, but held
  /// whole in the type that computes. Another stage may hold them so.
  std::optional<DataType> exact_in{};
  /// The type that counts where a conversion may lose bits.
  DataType exact_type() const { return exact_in.value_or(type); }
};

/// What a rank holds of one tensor.
struct HeldTensor {
  std::string name;          // the key in the checkpoint
  Shape shape;               // of the whole tensor
  std::int64_t counter = 0;  // how often it was updated
  List<HeldPart> parts{};    // weights, and each state of the optimizer
};

/// What one rank holds between two steps. All ranks list the same tensors and parts, and the ranges
/// of all of them cover each tensor; padding is in none.
struct HeldState {
  List<HeldTensor> tensors{};               // in the same order on all ranks
  std::int64_t step = 0;                    // training steps that were applied
  std::map<std::string, double> scalars{};  // numbers that are the same on all ranks
  /// The least and the most that a scalar may be here; a load refuses others before anything
  /// changes.
  std::map<std::string, std::pair<double, double>> limits{};
};

/// What zero::save and zero::load need of a module.
///
/// held_state()      waits until the module is at rest and lists what this rank holds; the
///                   pointers are good until the next step begins
/// restore(state)    takes counters, step and scalars from such a list, after the numbers that it
///                   points to were replaced
/// mesh().world      the communicator of all its ranks
template <class M>
concept HoldsState = requires(M& model, const HeldState& state) {
  { model.held_state() } -> std::same_as<HeldState>;
  model.restore(state);
  model.mesh().world;
};

}  // namespace zero
