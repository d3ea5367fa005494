// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// One rank of one communicator over NCCL. Includes comm/nccl/detail/{host_buffer,world}.hpp.
#pragma once

#include <nccl.h>

#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <zero/base/element.hpp>
#include <zero/comm/collective.hpp>
#include <zero/comm/nccl/detail/host_buffer.hpp>
#include <zero/comm/nccl/detail/world.hpp>
#include <zero/device/cuda/memory.hpp>

namespace zero::detail {

/// Owns what one communicator has of its own: the handle unless it is the user's, the operators
/// that average, a word for barriers, and counts of bytes. Its end waits, at most for the time
/// limit, for what was enqueued.
class NcclMember {
 public:
  /// make(handle) gives handle.comm a value by calls through the world.
  template <class Make>
  NcclMember(std::shared_ptr<NcclWorld> world, std::shared_ptr<NcclHostBuffer> buffer,
             const NcclHandle& handle, const Make& make)
      : world_(std::move(world)),
        buffer_(std::move(buffer)),
        word_(buffer_->memory(), sizeof(std::uint64_t)),
        captured_(buffer_->numbers()),
        handle_(handle) {
    handle_.captured = &captured_;
    world_->add(handle_);
    try {
      make(handle_);
      make_average(1.0F);
      make_average(1.0);
      make_average(bf16(1.0F));
      make_average(fp16(1.0F));
    } catch (...) {
      end();
      throw;
    }
  }
  NcclMember(const NcclMember&) = delete;
  NcclMember& operator=(const NcclMember&) = delete;
  ~NcclMember() { end(); }

  NcclWorld& world() const { return *world_; }
  const std::shared_ptr<NcclWorld>& shared_world() const { return world_; }
  NcclHostBuffer& buffer() const { return *buffer_; }
  const std::shared_ptr<NcclHostBuffer>& shared_buffer() const { return buffer_; }
  NcclHandle& handle() { return handle_; }
  std::size_t rank() const { return handle_.rank; }
  std::size_t size() const { return handle_.size; }
  void* word() const { return word_.data(); }

  /// The operator that does a reduction: NCCL multiplies before it adds, in the tensor's type. Its
  /// own average divides integers after adding, and so rounds down.
  ncclRedOp_t operation(DataType type, Reduction reduction) const {
    if (reduction == Reduction::sum) return ncclSum;
    switch (type) {
      case DataType::fp32: return averages_[0];
      case DataType::fp64: return averages_[1];
      case DataType::bf16: return averages_[2];
      case DataType::fp16: return averages_[3];
      case DataType::u64: return ncclAvg;
    }
    return ncclSum;
  }

  Traffic sent() const {
    const auto of = [this](Collective collective) {
      return sent_[static_cast<std::size_t>(collective)].load(std::memory_order_relaxed);
    };
    return {of(Collective::all_gather), of(Collective::reduce_scatter), of(Collective::all_reduce),
            of(Collective::broadcast)};
  }
  void count_sent(const Call& call) {
    const std::size_t others = size() - 1;
    std::uint64_t bytes = others * call.bytes();
    if (call.collective == Collective::barrier) return;
    if (call.collective == Collective::all_reduce) bytes = 2 * bytes / size();
    if (call.collective == Collective::broadcast && call.root != rank()) bytes = 0;
    sent_[static_cast<std::size_t>(call.collective)].fetch_add(bytes, std::memory_order_relaxed);
  }

 private:
  template <RealElement T>
  void make_average(T) {
    using Wide = std::conditional_t<std::same_as<T, double>, double, float>;
    T factor(static_cast<Wide>(1.0 / static_cast<double>(size())));
    world_->call(handle_, "ncclRedOpCreatePreMulSum", handle_, [&] {
      return ncclRedOpCreatePreMulSum(&averages_[averages_made_], &factor, nccl_type(data_type<T>),
                                      ncclScalarHostImmediate, handle_.comm);
    });
    ++averages_made_;
  }

  void end() noexcept {
    world_->destroy_operators(handle_, std::span(averages_).first(averages_made_));
    world_->close(handle_);
    world_->remove(handle_);
  }

  std::shared_ptr<NcclWorld> world_;
  std::shared_ptr<NcclHostBuffer> buffer_;
  Block<CudaMemory> word_;
  NcclCaptured captured_;
  NcclHandle handle_;
  std::array<ncclRedOp_t, 4> averages_{};  // of fp32, fp64, bf16, fp16
  std::size_t averages_made_ = 0;
  std::array<std::atomic<std::uint64_t>, 4> sent_{};
};

}  // namespace zero::detail
