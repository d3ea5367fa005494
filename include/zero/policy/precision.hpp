// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Precision: the types in which a module computes, sends, sums and keeps. Includes base/ only.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <zero/base/element.hpp>

namespace zero {

/// The types of a module, each chosen alone; given in place of the type of weights:
/// zero::shard<Stage, zero::Precision{.compute = ..., .reduce = ...}>(...). A bare zero::bf16
/// stands for zero::Precision{.compute = zero::DataType::bf16}.
///
/// They hold for tensors declared as zero::Tensor<T>; one that is declared as zero::Tensor<float>
/// stays fp32 throughout, but for its moments.
///
/// Weights that are gathered in a narrower type are rounded to it in every stage. Gradients are
/// rounded to `reduce` once when they leave and once when they are summed, in fp32 and in rank
/// order; fp16 carries averages over the ranks, so that many ranks do not overflow. Weights and
/// moments that are kept in bf16 alone are rounded stochastically: with random bits that depend on
/// ModuleOptions::rounding_seed, the tensor's name and counter and the element, on nothing else.
struct Precision {
  DataType compute = DataType::fp32;     // weights, as forward and backward see them
  DataType gather = compute;             // weights on the wire, and as shards
  DataType reduce = DataType::fp32;      // gradients on the wire
  DataType accumulate = DataType::fp32;  // gradients, as backward sees them and as they are summed
  DataType moments = DataType::fp32;     // what the optimizer keeps
  bool master = true;  // fp32 masters of narrower weights; without, updates round stochastically

  /// Whether a master is kept beside the weights; fp32 weights are their own.
  constexpr bool has_master() const { return master && gather != DataType::fp32; }
  /// The fewest bytes that an element takes in any buffer.
  constexpr std::size_t least_bytes() const {
    return std::min({size_of(compute), size_of(gather), size_of(reduce), size_of(accumulate),
                     size_of(moments)});
  }
  friend constexpr bool operator==(const Precision&, const Precision&) = default;
};

namespace detail {
constexpr bool is_weight(DataType type) {
  return type == DataType::fp32 || type == DataType::bf16 || type == DataType::fp16;
}
constexpr bool is_sum(DataType type) { return type == DataType::fp32 || type == DataType::bf16; }

constexpr bool computes_and_sends(const Precision& p) {
  return is_weight(p.compute) && is_weight(p.reduce);
}
constexpr bool gathers(const Precision& p) {
  return p.gather == p.compute || (p.compute == DataType::fp32 && is_weight(p.gather));
}
constexpr bool sums_and_keeps(const Precision& p) {
  return is_sum(p.accumulate) && is_sum(p.moments);
}
constexpr bool keeps_the_truth(const Precision& p) {
  return p.master || (p.compute == DataType::bf16 && p.gather == DataType::bf16);
}

template <DataType type>
struct ElementOf {
  using Type = float;
};
template <>
struct ElementOf<DataType::bf16> {
  using Type = bf16;
};
template <>
struct ElementOf<DataType::fp16> {
  using Type = fp16;
};
}  // namespace detail

/// A Precision as a type, to name the type of a module.
template <Precision Types>
struct WithPrecision {
  static_assert(detail::computes_and_sends(Types),
                "zero::Precision: weights compute, and gradients travel, as fp32, bf16 or fp16.");
  static_assert(detail::gathers(Types),
                "zero::Precision: weights are gathered in the type in which they compute, or in "
                "bf16 or fp16 where they compute in fp32.");
  static_assert(detail::sums_and_keeps(Types),
                "zero::Precision: gradients are summed, and moments are kept, in fp32 or bf16.");
  static_assert(detail::keeps_the_truth(Types),
                "zero::Precision: weights without fp32 masters must be bf16; set .compute to bf16 "
                "or leave .master true.");
  static constexpr Precision types = Types;  // the types that it stands for
};

/// Whether a module can have these types; WithPrecision says why not.
constexpr bool is_valid(const Precision& types) {
  return detail::computes_and_sends(types) && detail::gathers(types) &&
         detail::sums_and_keeps(types) && detail::keeps_the_truth(types);
}

/// What a type of weights, or a WithPrecision, stands for.
template <class T>
inline constexpr Precision precision_of = {.compute = data_type<T>};
/// Its types.
template <Precision Types>
inline constexpr Precision precision_of<WithPrecision<Types>> = WithPrecision<Types>::types;

namespace detail {
template <class T>
inline constexpr bool is_precision =
    std::same_as<T, float> || std::same_as<T, bf16> || std::same_as<T, fp16>;
template <Precision Types>
inline constexpr bool is_precision<WithPrecision<Types>> = true;
}  // namespace detail

}  // namespace zero
