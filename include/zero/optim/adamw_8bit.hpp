// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// AdamW with moments of 8 bits. May include base/ and layout/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <zero/base/array.hpp>
#include <zero/layout/tensor.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/block_codes.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/optim/scheduled.hpp>
#include <zero/optim/update.hpp>

namespace zero {

/// AdamW whose moments are kept as codes of 8 bits: 2.03 bytes an element in place of 8. Blocks of
/// 256 elements, counted from the beginning of a tensor, share a scale and lie on one rank. Moments
/// are rounded stochastically, with random bits that depend on ModuleOptions::rounding_seed, the
/// tensor's name and counter and the element, on nothing else; see BlockCode.
///
/// read_state and checkpoints give the moments as AdamW's, in fp32, one an element: either loads
/// what the other saved.
struct AdamW8bit {
  Scheduled learning_rate = 3e-4F;  // a number, or a function of the step
  float beta1 = 0.9F;               // of the mean of gradients
  float beta2 = 0.999F;             // of the mean of their squares
  float epsilon = 1e-8F;            // added to the root of the latter
  Scheduled weight_decay = 0.01F;   // decoupled; of tensors that decay

  static constexpr std::size_t states = AdamW::states;   // how many states there are
  static constexpr std::size_t block = quantised_block;  // elements that share a scale
  using Coefficients = AdamW::Coefficients;              // the numbers of one update

  using FirstMoment = CodedBlock<true>;    // a block of means of gradients
  using SecondMoment = CodedBlock<false>;  // a block of means of squares

  /// The same settings without rounding.
  AdamW plain() const { return {learning_rate, beta1, beta2, epsilon, weight_decay}; }
  /// Refuses settings that make no sense, as a ContractError.
  void check() const { plain().check(); }
  /// The numbers of one update.
  Coefficients coefficients(std::int64_t counter, std::int64_t step, bool decay) const {
    return plain().coefficients(counter, step, decay);
  }

  /// How many numbers state k of a tensor has.
  static constexpr std::size_t state_numbers(std::size_t, const Shape&) {
    return FirstMoment::numbers;
  }
  /// An update needs no room.
  static constexpr std::size_t scratch_numbers(const Shape&) { return 0; }

  static void update(const Coefficients& c, float divisor, float clip, const Shape&,
                     const UpdateArrays& arrays, float*) {
    float m[block], v[block];
    const Array moments[] = {Array(m, block), Array(v, block)};
    std::size_t at = 0;  // in what is kept
    for (std::size_t begin = 0; begin < arrays.gradient.count; begin += block) {
      const std::size_t count = std::min(block, arrays.gradient.count - begin);
      const FirstMoment first(arrays.states[0].as<float>() + at);
      const SecondMoment second(arrays.states[1].as<float>() + at);
      first.read(m, count);
      second.read(v, count);
      UpdateArrays part = arrays.part(begin, count);
      part.states = moments;
      zero::update<AdamW>(c, divisor, clip, part);
      first.write(m, count, arrays.random.with(1), part.begin);
      second.write(v, count, arrays.random.with(2), part.begin);
      at += FirstMoment::numbers;
    }
  }

  static void unpack_state(std::size_t k, const float* kept, float* out, std::size_t count) {
    for (std::size_t i = 0; i < count; i += block, kept += FirstMoment::numbers) {
      float* const from = const_cast<float*>(kept);  // CodedBlock::read leaves it alone
      const std::size_t length = std::min(block, count - i);
      k == 0 ? FirstMoment(from).read(out + i, length) : SecondMoment(from).read(out + i, length);
    }
  }
  /// Rounds a state of fp32 into blocks.
  static void pack_state(std::size_t k, const float* in, float* kept, std::size_t count) {
    for (std::size_t i = 0; i < count; i += block, kept += FirstMoment::numbers) {
      const std::size_t length = std::min(block, count - i);
      k == 0 ? FirstMoment(kept).write(in + i, length) : SecondMoment(kept).write(in + i, length);
    }
  }
};

static_assert(RangeOptimizer<AdamW8bit>);

}  // namespace zero
