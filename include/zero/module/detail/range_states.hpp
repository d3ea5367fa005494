// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What a RangeOptimizer keeps of a piece, as the numbers that others see. May include layout/,
// optim/ and module/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <zero/base/array.hpp>
#include <zero/layout/flat_layout.hpp>
#include <zero/layout/state_layout.hpp>
#include <zero/module/detail/numbers.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/optim/optimizer.hpp>

namespace zero::detail {

/// Reads and writes a state of one piece of a tensor. `at` is where the piece begins in buffers of
/// elements, `held` the buffer of the state.
template <class Optimizer>
struct RangeStates {
  static constexpr bool of_blocks = Optimizer::block != whole_tensor;

  /// What is kept of a piece.
  static Array kept(const GroupInfo& group, const Piece& piece, std::size_t at, std::size_t k,
                    const Array& held) {
    const StateLayout::Range range = group.states.range(piece, k);
    const std::size_t shard = (at - piece.shard_begin) / group.layout.shard();
    return held.part(shard * group.states.shard(group.layout, k) + range.begin, range.count);
  }
  /// The numbers of a piece among those of its tensor.
  static std::span<float> seen(const Piece& piece, std::span<float> all) {
    if constexpr (of_blocks) return all.subspan(piece.tensor_begin, piece.count);
    return all;
  }
  static void get(const GroupInfo& group, const Piece& piece, std::size_t at, std::size_t k,
                  const Array& held, std::span<float> out) {
    const Array from = kept(group, piece, at, k, held);
    if constexpr (of_blocks) {
      Optimizer::unpack_state(k, from.template as<float>(), out.data(), out.size());
    } else {
      std::copy_n(from.template as<float>(), from.count, out.data());
    }
  }
  /// Makes these the numbers of the tensor's state.
  static void set(const GroupInfo& group, const Piece& piece, std::size_t at, std::size_t k,
                  const Array& held, const Numbers& value) {
    const Array to = kept(group, piece, at, k, held);
    float* const numbers = to.template as<float>();
    if constexpr (of_blocks) {
      const std::size_t blocks = (piece.count + Optimizer::block - 1) / Optimizer::block;
      for (std::size_t b = 0; b < blocks; ++b) {
        float room[Optimizer::block];
        const std::size_t begin = b * Optimizer::block;
        const std::size_t count = std::min(Optimizer::block, piece.count - begin);
        value.fill(piece.tensor_begin + begin, {room, count});
        Optimizer::pack_state(k, room, numbers + b * (to.count / blocks), count);
      }
    } else {
      value.fill(0, {numbers, to.count});
    }
  }
};

}  // namespace zero::detail
