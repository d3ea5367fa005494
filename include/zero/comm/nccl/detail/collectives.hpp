// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The collectives of a communicator over NCCL: checks arguments, then issues. Includes
// comm/detail/caller.hpp and comm/nccl/detail/member.hpp.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <zero/comm/detail/caller.hpp>
#include <zero/comm/nccl/detail/member.hpp>

namespace zero::detail {

/// The part of NcclCommunicator that moves data; see Communicator for what each means.
class NcclCollectives {
 public:
  std::size_t rank() const { return member_->rank(); }
  std::size_t size() const { return member_->size(); }
  /// By the formulas of the concept. What a graph replays is counted once, when it is captured.
  Traffic sent() const { return member_->sent(); }

  template <Element T>
  void all_gather(const T* in, T* out, std::size_t count, Label label = {}) const {
    run(caller().all_gather(in, out, count, label));
  }
  template <Element T>
  void all_gather(CudaStream& stream, const T* in, T* out, std::size_t count,
                  Label label = {}) const {
    issue(stream, caller().all_gather(in, out, count, label));
  }

  template <Element T>
  void reduce_scatter(const T* in, T* out, std::size_t count, Accumulate accumulate = {},
                      Label label = {}, Reduction reduction = {}) const {
    run(scatter_call(in, out, count, accumulate, label, reduction));
  }
  template <Element T>
  void reduce_scatter(CudaStream& stream, const T* in, T* out, std::size_t count,
                      Accumulate accumulate = {}, Label label = {},
                      Reduction reduction = {}) const {
    issue(stream, scatter_call(in, out, count, accumulate, label, reduction));
  }

  template <Element T>
  void all_reduce(T* data, std::size_t count, Label label = {}, Reduction reduction = {}) const {
    run(caller().all_reduce(data, count, label, reduction));
  }
  template <Element T>
  void all_reduce(CudaStream& stream, T* data, std::size_t count, Label label = {},
                  Reduction reduction = {}) const {
    issue(stream, caller().all_reduce(data, count, label, reduction));
  }

  template <Element T>
  void broadcast(T* data, std::size_t count, std::size_t root, Label label = {}) const {
    run(caller().broadcast(data, count, root, label));
  }
  template <Element T>
  void broadcast(CudaStream& stream, T* data, std::size_t count, std::size_t root,
                 Label label = {}) const {
    issue(stream, caller().broadcast(data, count, root, label));
  }

  void barrier(Label label = {}) const {
    const Call call = Call{}.labelled(label);
    refuse_in_group(call);
    issue(member_->buffer().stream(), call);
    member_->buffer().stream().synchronize();
  }
  void barrier(CudaStream& stream, Label label = {}) const {
    issue(stream, Call{}.labelled(label));
  }

 protected:
  explicit NcclCollectives(std::shared_ptr<NcclMember> member) : member_(std::move(member)) {}

  Caller caller() const { return {rank(), size()}; }
  [[noreturn]] void refuse(const Call& call, const std::string& why) const {
    caller().refuse(call, why);
  }
  void refuse_in_group(const Call& call) const {
    if (!member_->world().in_group()) return;
    refuse(call, "it would block within grouped(). Pass a stream, or call it outside");
  }

  std::shared_ptr<NcclMember> member_;

 private:
  void issue(CudaStream& stream, const Call& call) const {
    enqueue(stream, call, call.in, call.out, call.count);
    member_->count_sent(call);
  }
  /// On memory of the host.
  void run(const Call& call) const {
    refuse_in_group(call);
    NcclHostBuffer& buffer = member_->buffer();
    // Captures are listed: of [&], nvcc's host compiler sees another order than g++ does.
    buffer.run(call, rank(), size(),
               [this, &buffer, &call](const void* in, void* out, std::size_t count) {
                 this->enqueue(buffer.stream(), call, in, out, count);
               });
    member_->count_sent(call);
  }

  void enqueue(CudaStream& stream, const Call& call, const void* in, void* out,
               std::size_t count) const {
    if (stream.ordinal() != member_->buffer().ordinal()) {
      refuse(call, "stream '" + stream.name() + "' belongs to device " +
                       std::to_string(stream.ordinal()) + ", the communicator to device " +
                       std::to_string(member_->buffer().ordinal()) +
                       ". Pass a stream of the latter");
    }
    const ncclDataType_t type = nccl_type(call.type);
    const auto send = [&](const char* api, const auto& f) {
      member_->world().issue(member_->handle(), call, api, stream, f);
    };
    const ncclRedOp_t operation = member_->operation(call.type, call.reduction);
    switch (call.collective) {
      case Collective::all_gather:
        return send("ncclAllGather", [&](ncclComm_t comm, cudaStream_t on) {
          return ncclAllGather(in, out, count, type, comm, on);
        });
      case Collective::reduce_scatter:
        return send("ncclReduceScatter", [&](ncclComm_t comm, cudaStream_t on) {
          return ncclReduceScatter(in, out, count, type, operation, comm, on);
        });
      case Collective::all_reduce:
        return send("ncclAllReduce", [&](ncclComm_t comm, cudaStream_t on) {
          return ncclAllReduce(in, out, count, type, operation, comm, on);
        });
      case Collective::broadcast:
        return send("ncclBroadcast", [&](ncclComm_t comm, cudaStream_t on) {
          return ncclBroadcast(in, out, count, type, static_cast<int>(call.root), comm, on);
        });
      default:  // a barrier: who has the sum has heard of all
        return send("ncclAllReduce", [&](ncclComm_t comm, cudaStream_t on) {
          void* word = member_->word();
          return ncclAllReduce(word, word, 1, ncclUint64, ncclSum, comm, on);
        });
    }
  }

  template <class T>
  Call scatter_call(const T* in, T* out, std::size_t count, Accumulate accumulate,
                    const Label& label, Reduction reduction) const {
    const Call call = caller().reduce_scatter(in, out, count, accumulate, label, reduction);
    if (accumulate == Accumulate::yes) {
      refuse(call,
             "NCCL cannot accumulate. Reduce into this rank's part of `in`, and add afterwards");
    }
    return call;
  }
};

}  // namespace zero::detail
