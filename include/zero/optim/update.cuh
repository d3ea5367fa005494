// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The update of a group of tensors in device memory by an Optimizer. May include base/ and layout/.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <zero/base/array.hpp>
#include <zero/base/element.hpp>
#include <zero/layout/tensor_range.hpp>
#include <zero/optim/detail/group_part.cuh>
#include <zero/optim/detail/launch.cuh>
#include <zero/optim/detail/tile.cuh>
#include <zero/optim/optimizer.hpp>
#include <zero/optim/stochastic.hpp>
#include <zero/optim/update.hpp>

namespace zero {

/// The update of one part of a group of tensors: arrays as for UpdateArrays, but that they may hold
/// parts of many tensors, and tables in device memory that say which and how.
template <Optimizer O>
struct GroupUpdate {
  Array gradient, master, compute;           // element i is element begin + i of the group
  Array states[O::states + 1];               // of the optimizer
  DataType gather = DataType::fp32;          // in which type weights travel
  std::uint64_t begin = 0;                   // of the first element in its shard
  const TensorRange* ranges = nullptr;       // the tensors that lie in it
  std::uint32_t range_count = 0;             // how many
  const UpdateDecision* decision = nullptr;  // what all ranks decided, on the device
  // By the number of the tensor in the model:
  const std::uint8_t* present = nullptr;                   // whether it has a gradient
  const typename O::Coefficients* coefficients = nullptr;  // the numbers of the update, by tensor
  const std::uint64_t* random_keys = nullptr;  // RandomBits::key; may be null without bf16 masters
};

namespace detail {
/// Random bits for the lanes of a tile. All but a few tiles need one mixing of the upper halves.
class LaneRandom {
 public:
  __device__ LaneRandom(const RandomBits& bits, std::uint64_t number)
      : bits_(bits), number_(number), high_(bits.with(number >> 32)) {}
  __device__ std::uint32_t operator()(std::uint32_t lane) const {
    const std::uint64_t number = number_ + lane;
    const auto low = static_cast<std::uint32_t>(number);
    if (number >> 32 == number_ >> 32) return high_(low);
    return bits_.with(number >> 32)(low);
  }

 private:
  RandomBits bits_;
  std::uint64_t number_;  // of lane 0 in its tensor
  RandomBits high_;
};

/// Writes masters or states, and leaves in `values` what they are now.
__device__ inline void store_rounded(float (&values)[tile_size], const Array& to,
                                     const Lanes& lanes, const RandomBits& bits,
                                     std::uint64_t number) {
  if (to.type == DataType::fp32) return store(from_floats(values, to.type), to, lanes);
  const LaneRandom random(bits, number);
#pragma unroll
  for (std::uint32_t k = 0; k < tile_size; ++k) {
    values[k] = to_float(round_stochastically(values[k], random(k)));
  }
  store(from_floats(values, DataType::bf16), to, lanes);
}

/// Weights that compute: masters, rounded to the type that travels, then to their own.
__device__ inline void store_refreshed(float (&masters)[tile_size], DataType gather,
                                       const Array& to, const Lanes& lanes) {
  if (gather != to.type) to_floats(from_floats(masters, gather), gather, masters);
  store(from_floats(masters, to.type), to, lanes);
}

/// Updates the lanes of a tile, all of one tensor.
template <Optimizer O, std::size_t... I>
__device__ void update_lanes(const GroupUpdate<O>& u, const Lanes& lanes, const TensorRange& range,
                             std::index_sequence<I...>) {
  // All that is read is asked for before any of it is needed.
  const RawTile raw_gradient = load(u.gradient, lanes), raw_master = load(u.master, lanes);
  const RawTile raw_states[O::states + 1] = {load(u.states[I], lanes)...};
  const UpdateDecision decision = *u.decision;
  const typename O::Coefficients c = u.coefficients[range.tensor];
  float gradient[tile_size], master[tile_size], states[O::states + 1][tile_size] = {};
  to_floats(raw_gradient, u.gradient.type, gradient);
  to_floats(raw_master, u.master.type, master);
  (..., to_floats(raw_states[I], u.states[I].type, states[I]));
#pragma unroll
  for (std::uint32_t k = 0; k < tile_size; ++k) {
    O::element(c, gradient[k] / decision.divisor * decision.clip, master[k], states[I][k]...);
  }
  const auto random =
      RandomBits::of_key(u.random_keys == nullptr ? 0 : u.random_keys[range.tensor]);
  const std::uint64_t number = u.begin + lanes.begin - range.offset;
  store_rounded(master, u.master, lanes, random, number);
  (..., store_rounded(states[I], u.states[I], lanes, random.with(I + 1), number));
  if (u.compute.data != nullptr && u.compute.data != u.master.data) {
    store_refreshed(master, u.gather, u.compute, lanes);
  }
}

/// What for_each_tensor does with each tensor.
template <Optimizer O>
struct TensorUpdate {
  const GroupUpdate<O>& u;
  __device__ void operator()(const TensorRange& range, const Lanes& lanes) const {
    if (u.present[range.tensor] == 0) return;
    update_lanes<O>(u, lanes, range, std::make_index_sequence<O::states>());
  }
};
template <Optimizer O>
__device__ void update_tile(const GroupUpdate<O>& u, const Tiling& tiling, std::uint64_t tile) {
  if (tile >= tiling.tiles() || u.decision->applied == 0) return;
  for_each_tensor(tiling, tile, {u.ranges, u.range_count, u.begin}, TensorUpdate<O>{u});
}
template <Optimizer O>
__global__ void __launch_bounds__(block_threads) update_kernel(GroupUpdate<O> u, Tiling tiling) {
  update_tile(u, tiling, thread_number(blockIdx.x, blockDim.x, threadIdx.x));
}
}  // namespace detail

/// Updates the elements of the tensors that are present, as update does on the host; nothing where
/// the decision says that the step is not applied. Padding is neither read nor written.
///
/// Order:   enqueued on `stream`; neither synchronises nor allocates; can be captured. Tables and
///          the decision are read when the stream gets there. With nvcc -fmad=false each element
///          gets the bits that the host gives it.
/// Pre:     the arrays have the same count and do not overlap, but for `compute`.
/// Errors:  CudaError if the kernel cannot be started.
template <Optimizer O>
void update_group(cudaStream_t stream, const GroupUpdate<O>& u) {
  Array arrays[O::states + 3] = {u.gradient, u.master, u.compute};
  for (std::size_t k = 0; k != O::states; ++k) arrays[k + 3] = u.states[k];
  const detail::Tiling tiling(arrays);
  detail::launch("update_group", stream, detail::blocks_for(tiling.tiles()),
                 detail::update_kernel<O>, u, tiling);
}

}  // namespace zero
