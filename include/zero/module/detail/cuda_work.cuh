// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What the operations of a schedule do on a CUDA stream. May include anything below module/.
#pragma once
#include <cuda_runtime.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <zero/base/array.hpp>
#include <zero/device/cuda/device.hpp>
#include <zero/module/buffers.hpp>
#include <zero/module/captured_step.hpp>
#include <zero/module/control.hpp>
#include <zero/module/detail/cuda_store.hpp>
#include <zero/module/detail/cuda_streams.hpp>
#include <zero/module/detail/on_device.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/optim/cast.cuh>
#include <zero/optim/detail/launch.cuh>
#include <zero/optim/norm.cuh>
#include <zero/optim/optimizer.hpp>
#include <zero/optim/owned_piece.hpp>
#include <zero/optim/update.cuh>

namespace zero::detail {

// The steps of ControlView, each by one block.
__device__ inline ThreadOf this_thread() { return {threadIdx.x, blockDim.x}; }

template <class View>
__global__ void pack_kernel(View control, std::size_t rank, std::size_t size,
                            bool contributes_norm) {
  if (threadIdx.x == 0) control.begin_pack(contributes_norm, 0);
  __syncthreads();
  control.write_block(rank, control.ranks, size, true, this_thread());
}
template <class View>
__global__ void read_kernel(View control) {
  control.read_notes(this_thread());
  __syncthreads();
  if (threadIdx.x == 0) control.read_head(control.ranks, true);
}
template <class View>
__global__ void pack_axis_kernel(View control, std::size_t rank, std::size_t ranks,
                                 std::size_t size) {
  control.write_block(rank, ranks, size, false, this_thread());
}
template <class View>
__global__ void read_axis_kernel(View control, std::size_t ranks) {
  if (threadIdx.x == 0) control.read_head(ranks, false);
}
template <class View>
__global__ void decide_kernel(View control) {
  if (threadIdx.x == 0) control.decide();
  __syncthreads();
  control.count_updates(this_thread());
}

/// Order: each call enqueues and can be captured; what is enqueued reads buffers and control when
///        the stream gets there.
template <class Optimizer>
class CudaWork {
  static_assert(ElementOptimizer<Optimizer> || KernelOptimizer<Optimizer>,
                "zero::shard: this optimizer has no kernel for CUDA devices, as zero::AdamW8bit, "
                "zero::Muon and zero::Adafactor have none; use zero::AdamW, zero::Sgd or "
                "zero::Lion, or a mesh of the host.");

 public:
  using Group = typename Buffers<Optimizer::states>::Group;

  /// Errors:  ContractError if a KernelOptimizer is to update what is not fp32.
  CudaWork(const ParameterTable& parameters, Control& control, CudaStreams&, CudaStore*)
      : parameters_(parameters), control_(control) {
    if constexpr (KernelOptimizer<Optimizer>) {
      for (const GroupInfo& group : parameters.groups()) {
        if (!group.frozen) check_types(group.types);
      }
    }
  }

  /// Brings what the user's kernels may read of control before the step is decided.
  void begin_step(CudaStream& stream) const {
    copy(stream, &control_.live().record->scale.scale, &control_.staged().record->scale.scale,
         sizeof(double), cudaMemcpyHostToDevice);
  }
  void fill(CudaStream& stream, const Array& array, int byte) const {
    if (array.count == 0) return;
    check_cuda(cudaMemsetAsync(array.data, byte, array.bytes(), stream.native()),
               "cudaMemsetAsync");
  }
  void convert(CudaStream& stream, const Array& from, const Array& to, float scale,
               bool adds) const {
    cast_scaled(stream.native(), from, to, scale, adds);
  }
  void square_norm(CudaStream& stream, std::size_t g, const Array& own, std::size_t index) const {
    const ControlView& live = control_.live();
    norm_part(stream.native(), own, control_.live_ranges(g), ranges(g), begin(g, index), live.order,
              live.scratch, live.norms + g);
  }
  void no_norm(CudaStream& stream, std::size_t g) const {
    check_cuda(cudaMemsetAsync(control_.live().norms + g, 0, sizeof(double), stream.native()),
               "cudaMemsetAsync");
  }
  void pack(CudaStream& stream, std::size_t rank, bool contributes_norm) const {
    copy(stream, control_.live_bytes(), control_.staged_bytes(), control_.live().mirrored_bytes(),
         cudaMemcpyHostToDevice);
    launch("finish", stream.native(), 1, pack_kernel<ControlView>, control_.live(), rank,
           control_.shape().world_block(), contributes_norm);
  }
  void read(CudaStream& stream) const {
    launch("finish", stream.native(), 1, read_kernel<ControlView>, control_.live());
  }
  void pack_axis(CudaStream& stream, std::size_t axis, std::size_t rank) const {
    launch("finish", stream.native(), 1, pack_axis_kernel<ControlView>, control_.live(), rank,
           control_.shape().axes[axis], control_.shape().axis_block(axis));
  }
  void read_axis(CudaStream& stream, std::size_t axis) const {
    launch("finish", stream.native(), 1, read_axis_kernel<ControlView>, control_.live(),
           control_.shape().axes[axis]);
  }
  void decide(CudaStream& stream) const {
    launch("finish", stream.native(), 1, decide_kernel<ControlView>, control_.live());
    copy(stream, control_.staged_bytes(), control_.live_bytes(), control_.live().kept_bytes(),
         cudaMemcpyDeviceToHost);
  }
  void update(CudaStream& stream, std::size_t g, const Group& buffers, const Array& gradient,
              std::size_t first, std::size_t last) const {
    if constexpr (KernelOptimizer<Optimizer>) {
      for (std::size_t r = first; r < last; ++r) {
        update_pieces(stream, g, buffers, gradient, r, r - first);
      }
      if (buffers.own.data != buffers.master.data) {
        convert(stream, buffers.master, buffers.own, 1, false);
      }
    } else {
      update_elements(stream, g, buffers, gradient, first);
    }
  }
  /// Notes the time at which the host sees the stream get there.
  void note(CudaStream& stream, double& at) const {
    const auto write = [](void* to) {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      *static_cast<double*>(to) = std::chrono::duration<double, std::micro>(now).count();
    };
    check_cuda(cudaLaunchHostFunc(stream.native(), write, &at), "cudaLaunchHostFunc");
  }

 private:
  static_assert(sizeof(RandomBits) == sizeof(std::uint64_t));

  void update_elements(CudaStream& stream, std::size_t g, const Group& buffers,
                       const Array& gradient, std::size_t first) const {
    const ControlView& live = control_.live();
    GroupUpdate<Optimizer> u;
    u.gradient = gradient;
    u.master = buffers.master;
    u.compute = buffers.own;
    for (std::size_t k = 0; k != Optimizer::states; ++k) u.states[k] = buffers.states[k];
    u.gather = parameters_.groups()[g].types.gather;
    u.begin = begin(g, first);
    u.ranges = control_.live_ranges(g);
    u.range_count = ranges(g);
    u.decision = &live.record->update;
    u.present = live.present;
    u.coefficients = reinterpret_cast<const typename Optimizer::Coefficients*>(live.coefficients);
    u.random_keys = reinterpret_cast<const std::uint64_t*>(live.random);
    update_group(stream.native(), u);
  }
  /// Shard r of the group, which is the nth of those in the buffers.
  void update_pieces(CudaStream& stream, std::size_t g, const Group& buffers, const Array& gradient,
                     std::size_t r, std::size_t nth) const {
    const GroupInfo& info = parameters_.groups()[g];
    const ControlView& live = control_.live();
    info.layout.for_each_piece(r, [&](const Piece& piece) {
      using Coefficients = typename Optimizer::Coefficients;
      const std::size_t tensor = info.tensors[piece.tensor];
      const std::size_t begin = nth * info.layout.shard() + piece.shard_begin;
      OwnedPiece<Coefficients, Optimizer::states> made;
      made.weights = buffers.master.template as<float>() + begin;
      made.gradient = gradient.template as<float>() + begin;
      for (std::size_t k = 0; k != Optimizer::states; ++k) {
        made.states[k] = buffers.states[k].template as<float>() + begin;
      }
      made.count = piece.count;
      made.begin = piece.tensor_begin;
      made.coefficients = reinterpret_cast<const Coefficients*>(live.coefficients) + tensor;
      made.decision = &live.record->update;
      made.present = live.present + tensor;
      Optimizer::enqueue(stream.native(), made);
    });
  }
  static void check_types(const Precision& types) {
    if (types.accumulate == DataType::fp32 && types.moments == DataType::fp32 &&
        types.gather == types.compute && (types.compute == DataType::fp32 || types.has_master())) {
      return;
    }
    throw ContractError(
        "zero::shard: an optimizer with a kernel of its own updates fp32 only, but the Precision "
        "has other gradients, masters or moments; leave those fp32 and let `gather` be `compute`");
  }
  std::uint32_t ranges(std::size_t g) const {
    return static_cast<std::uint32_t>(parameters_.groups()[g].tensors.size());
  }
  /// Where a shard begins in its group.
  std::uint64_t begin(std::size_t g, std::size_t shard) const {
    return shard * parameters_.groups()[g].layout.shard();
  }
  static void copy(CudaStream& stream, void* to, const void* from, std::size_t bytes,
                   cudaMemcpyKind kind) {
    check_cuda(cudaMemcpyAsync(to, from, bytes, kind, stream.native()), "cudaMemcpyAsync");
  }
  const ParameterTable& parameters_;
  Control& control_;
};

/// Pinned memory of the host.
struct CudaStaged {
  explicit CudaStaged(std::size_t count) : block({}, count) {}
  std::span<std::byte> bytes() const { return {block.data(), block.bytes()}; }
  Block<PinnedMemory> block;
};

template <>
struct OnDevice<CudaStream> {
  using Event = CudaEvent;
  using Memory = CudaMemory;
  using Staged = CudaStaged;
  using Streams = CudaStreams;
  using Store = CudaStore;
  template <class Optimizer>
  using Work = CudaWork<Optimizer>;
  template <class Module>
  using Captured = CapturedStep<Module>;
  static constexpr bool is_host = false;
  static constexpr bool adds_in_reduce = false;
  static constexpr std::size_t scratch = norm_scratch;
};

}  // namespace zero::detail
