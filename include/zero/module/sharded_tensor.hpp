// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ShardedTensor: one tensor cut over the ranks of a communicator. May include comm/, device/,
// layout/.
#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/comm/communicator.hpp>
#include <zero/layout/flat_layout.hpp>
#include <zero/layout/tensor.hpp>

namespace zero {

/// One tensor of which each rank holds an equal part: usable alone, without a module.
///
/// The caller gives the buffers in which it is whole; each holds padded() elements, of which the
/// last may be padding. All calls with a buffer are collective and return when they are done.
///
/// Source: Rajbhandari et al., ZeRO, 2020, section 5.
template <Element T, Communicator Comm>
class ShardedTensor {
 public:
  /// All elements are zero. Not collective.
  ShardedTensor(Comm comm, const Shape& shape)
      : comm_(std::move(comm)),
        shape_(shape),
        layout_(std::array{shape.elements()}, comm_.size(), alignment),
        shard_(layout_.shard(), T{}) {}

  /// Of the whole tensor.
  const Shape& shape() const { return shape_; }
  /// Elements of the whole tensor.
  std::size_t size() const { return shape_.elements(); }
  /// Elements that a buffer for the whole tensor must hold.
  std::size_t padded() const { return layout_.padded(); }
  /// Where this rank's elements begin in the tensor.
  std::size_t begin() const { return std::min(comm_.rank() * layout_.shard(), size()); }
  /// This rank's elements; none on trailing ranks if there are too few.
  std::span<T> shard() { return std::span(shard_).first(layout_.owned(comm_.rank())); }
  /// The elements that this rank holds, without padding.
  std::span<const T> shard() const { return std::span(shard_).first(layout_.owned(comm_.rank())); }

  /// Gathers the tensor into `whole` on every rank and returns a view of it.
  ///
  /// Shape:   whole [padded()].
  /// Errors:  ContractError if `whole` is too small; CommunicatorError if the backend fails.
  BasicTensor<T, 1> all_gather(std::span<T> whole) const {
    check("all_gather", whole.size());
    comm_.all_gather(shard_.data(), whole.data(), layout_.shard(), Label{});
    return {whole.data(), shape_};
  }
  /// Makes the shards the sum (or average) of all ranks' `whole`, or adds that to them.
  ///
  /// Shape:   whole [padded()]; what lies behind size() is ignored.
  void reduce_scatter(std::span<const T> whole, Reduction reduction = Reduction::sum,
                      Accumulate accumulate = Accumulate::no) {
    check("reduce_scatter", whole.size());
    comm_.reduce_scatter(whole.data(), shard_.data(), layout_.shard(), accumulate, Label{},
                         reduction);
  }
  /// Takes this rank's part of a tensor that every rank has. Not collective.
  ///
  /// Shape:   whole [size()].
  void assign(std::span<const T> whole) {
    if (whole.size() != size()) {
      throw ContractError("zero::ShardedTensor::assign: expected " + std::to_string(size()) +
                          " elements, got " + std::to_string(whole.size()));
    }
    for (std::size_t i = 0; i < shard().size(); ++i) shard_[i] = whole[begin() + i];
  }

 private:
  static constexpr std::size_t alignment = sizeof(T) < 16 ? 16 / sizeof(T) : 1;

  void check(const char* call, std::size_t elements) const {
    if (elements >= padded()) return;
    throw ContractError(std::string("zero::ShardedTensor::") + call + ": the buffer must hold " +
                        std::to_string(padded()) + " elements (padded()), but has " +
                        std::to_string(elements));
  }

  Comm comm_;
  Shape shape_;
  FlatLayout layout_;
  List<T> shard_;  // with its padding
};

}  // namespace zero
