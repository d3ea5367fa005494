// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The norm of a group's part in device memory. May include base/ and layout/.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cub/block/block_reduce.cuh>
#include <zero/base/array.hpp>
#include <zero/layout/tensor_range.hpp>
#include <zero/optim/detail/group_part.cuh>
#include <zero/optim/detail/launch.cuh>
#include <zero/optim/detail/tile.cuh>
#include <zero/optim/norm.hpp>

namespace zero {

namespace detail {
inline constexpr unsigned norm_blocks = 1024;

/// A part of a norm. `sum` is not a number once an element was not finite.
struct NormSum {
  double largest = 0, sum = 0;
};

/// Sums squares.
struct SquareSum {
  __device__ void add(NormSum& to, double value) const { to.sum += value * value; }
  __device__ NormSum operator()(const NormSum& a, const NormSum& b) const {
    return {0, a.sum + b.sum};
  }
  __device__ double result(const NormSum& all) const { return all.sum; }
};

/// The norm of any order: sums powers relative to the largest magnitude, so that none overflows or
/// vanishes. Of order infinity only the largest matters.
struct PowerSum {
  double order;

  __device__ double power(double value) const {
    return order == 1 ? value : isinf(order) ? 0 : pow(value, order);
  }
  __device__ NormSum operator()(const NormSum& a, const NormSum& b) const {
    if (a.largest == b.largest || order == 1) {
      return {a.largest > b.largest ? a.largest : b.largest, a.sum + b.sum};
    }
    const bool swapped = a.largest < b.largest;
    const NormSum& large = swapped ? b : a;
    const NormSum& small = swapped ? a : b;
    return {large.largest, large.sum + small.sum * power(small.largest / large.largest)};
  }
  __device__ void add(NormSum& to, double value) const {
    const double magnitude = fabs(value);
    if (magnitude == 0) return;
    to = (*this)(to, {magnitude, order == 1 ? magnitude : 1});
  }
  __device__ double result(const NormSum& all) const {
    if (order == 1 || isnan(all.sum)) return all.sum;
    return isinf(order) ? all.largest : all.largest * pow(all.sum, 1 / order);
  }
};

/// What for_each_tensor does with each tensor.
template <class Sum>
struct TensorNorm {
  const Array& array;
  const Sum& sum;
  NormSum& mine;

  __device__ void operator()(const TensorRange& range, const Lanes& lanes) const {
    float values[tile_size];
    to_floats(load(array, lanes), array.type, values);
    bool finite = true;
#pragma unroll
    for (std::uint32_t k = 0; k < tile_size; ++k) {
      const bool is_finite = (bits_as<std::uint32_t>(values[k]) & 0x7F800000) != 0x7F800000;
      finite = finite && is_finite;
      if (range.counts != 0 && is_finite) sum.add(mine, values[k]);
    }
    if (!finite) mine.sum = nan("");
  }
};

/// The sum over a block, for its first thread.
template <class Sum>
__device__ NormSum block_sum(const NormSum& mine, const Sum& sum) {
  using Reduce = cub::BlockReduce<NormSum, block_threads>;
  __shared__ typename Reduce::TempStorage room;
  return Reduce(room).Reduce(mine, sum);
}

/// Each block's sum of every gridDim.x-th part of the tiles.
template <class Sum>
__global__ void __launch_bounds__(block_threads)
    norm_kernel(Array own, GroupPart part, Tiling tiling, Sum sum, NormSum* sums) {
  NormSum mine;
  const std::uint64_t stride = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t tile = thread_number(blockIdx.x, blockDim.x, threadIdx.x);
       tile < tiling.tiles(); tile += stride) {
    for_each_tensor(tiling, tile, part, TensorNorm<Sum>{own, sum, mine});
  }
  mine = block_sum(mine, sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = mine;
}
template <class Sum>
__global__ void __launch_bounds__(block_threads)
    last_norm_kernel(const NormSum* sums, unsigned count, Sum sum, double* out) {
  NormSum mine;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) mine = sum(mine, sums[i]);
  mine = block_sum(mine, sum);
  if (threadIdx.x == 0) *out = sum.result(mine);
}
template <class Sum>
void launch_norm(cudaStream_t stream, const Array& own, const GroupPart& part, const Sum& sum,
                 double* scratch, double* out) {
  const Array arrays[] = {own};
  const Tiling tiling(arrays);
  const std::uint64_t wanted = blocks_for(tiling.tiles());
  const auto blocks = static_cast<unsigned>(wanted < norm_blocks ? wanted : norm_blocks);
  auto* const sums = reinterpret_cast<NormSum*>(scratch);
  launch("norm_part", stream, blocks, norm_kernel<Sum>, own, part, tiling, sum, sums);
  launch("norm_part", stream, 1, last_norm_kernel<Sum>, sums, blocks, sum, out);
}
}  // namespace detail

/// How many doubles of device memory norm_part works in, whatever its array.
inline constexpr std::size_t norm_scratch = 2 * detail::norm_blocks;

/// Writes what NormPart::value gives for the tensors of one part of a group: for order 2 the sum of
/// the squares in double, else the norm; not a number if an element of a tensor is not finite, be
/// it of one that does not count. Padding is not read.
///
/// Shape:   own: element i is element begin + i of the group that `ranges` [range_count], a table
///          in device memory, describes; scratch [norm_scratch] and out [1] in device memory.
/// Order:   two kernels on `stream`; neither synchronises nor allocates; can be captured. The order
///          of additions depends on the number of elements, where the array lies relative to 16
///          bytes, and the ranges: repeated calls give the same bits.
/// Pre:     order >= 1, or infinity.
/// Errors:  CudaError if a kernel cannot be started.
inline void norm_part(cudaStream_t stream, const Array& own, const TensorRange* ranges,
                      std::uint32_t range_count, std::uint64_t begin, double order, double* scratch,
                      double* out) {
  const detail::GroupPart part{ranges, range_count, begin};
  if (order == 2) {
    detail::launch_norm(stream, own, part, detail::SquareSum{}, scratch, out);
  } else {
    detail::launch_norm(stream, own, part, detail::PowerSum{order}, scratch, out);
  }
}

}  // namespace zero
