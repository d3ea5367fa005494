// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Several ranks on one device, which NCCL refuses: threads whose collectives copy within it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <zero/comm/detail/caller.hpp>
#include <zero/comm/run_threads.hpp>
#include <zero/device/cuda/stream.hpp>

#include "place.hpp"
#include "sum_parts.hpp"

namespace cuda_tests {

/// A Communicator of up to 8 threads whose streams belong to one device.
///
/// Each collective with a stream meets the other ranks on the host, twice: before it, all have
/// recorded that their buffers are ready, and after it, that they have been read; between, the
/// streams of all wait for those events, copy and sum. It cannot be captured, since a graph holds
/// no event of another rank's. Those without a stream are the ThreadCommunicator's.
class DeviceCommunicator : public zero::ThreadCommunicator {
  using Call = zero::detail::Call;

 public:
  using Stream = zero::CudaStream;

  /// A collective of the threads; blocks.
  explicit DeviceCommunicator(const zero::ThreadCommunicator& host)
      : ThreadCommunicator(host), meeting_(host.split(0, 0)), ranks_(host.size()) {
    if (size() > most_parts) throw zero::ContractError("DeviceCommunicator: more than 8 ranks.");
    const auto mine = std::make_shared<Rank>();
    const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&mine));
    std::vector<std::uint64_t> all(size());
    meeting_.all_gather(&address, all.data(), 1);
    for (std::size_t r = 0; r < size(); ++r) {
      ranks_[r] = *reinterpret_cast<const std::shared_ptr<Rank>*>(all[r]);
    }
    meeting_.barrier();
  }

  DeviceCommunicator split(int color, int key) const {
    return DeviceCommunicator(ThreadCommunicator::split(color, key));
  }

  zero::Traffic sent() const {
    zero::Traffic sum = ThreadCommunicator::sent();
    const zero::Traffic& more = ranks_[rank()]->sent;
    sum.all_gather += more.all_gather;
    sum.reduce_scatter += more.reduce_scatter;
    sum.all_reduce += more.all_reduce;
    sum.broadcast += more.broadcast;
    return sum;
  }

  using ThreadCommunicator::all_gather;
  template <zero::Element T>
  void all_gather(Stream& stream, const T* in, T* out, std::size_t count,
                  zero::Label label = {}) const {
    const Call call = caller().all_gather(in, out, count, label);
    exchange(stream, call, [&] {
      for (std::size_t r = 0; r < size(); ++r) {
        copy_elements(stream, out + r * count, part_of<T>(r), count);
      }
    });
    ranks_[rank()]->sent.all_gather += (size() - 1) * call.bytes();
  }

  using ThreadCommunicator::reduce_scatter;
  template <zero::Element T>
  void reduce_scatter(Stream& stream, const T* in, T* out, std::size_t count,
                      zero::Accumulate accumulate = {}, zero::Label label = {},
                      zero::Reduction reduction = {}) const {
    const Call call = caller().reduce_scatter(in, out, count, accumulate, label, reduction);
    exchange(stream, call, [&] { sum(stream, rank() * count, out, count, accumulate, reduction); });
    ranks_[rank()]->sent.reduce_scatter += (size() - 1) * call.bytes();
  }

  using ThreadCommunicator::all_reduce;
  template <zero::Element T>
  void all_reduce(Stream& stream, T* data, std::size_t count, zero::Label label = {},
                  zero::Reduction reduction = {}) const {
    const Call call = caller().all_reduce(data, count, label, reduction);
    // Each rank sums its own part in place, which nobody else reads meanwhile.
    const auto begin = [&](std::size_t r) { return count * r / size(); };
    const auto own = begin(rank() + 1) - begin(rank());
    exchange(stream, call, [&] {
      sum(stream, begin(rank()), data + begin(rank()), own, zero::Accumulate::no, reduction);
    });
    exchange(stream, call, [&] {
      for (std::size_t r = 0; r < size(); ++r) {
        copy_elements(stream, data + begin(r), part_of<T>(r) + begin(r), begin(r + 1) - begin(r));
      }
    });
    ranks_[rank()]->sent.all_reduce += (count - own + own * (size() - 1)) * sizeof(T);
  }

  using ThreadCommunicator::broadcast;
  template <zero::Element T>
  void broadcast(Stream& stream, T* data, std::size_t count, std::size_t root,
                 zero::Label label = {}) const {
    const Call call = caller().broadcast(data, count, root, label);
    exchange(stream, call, [&] { copy_elements(stream, data, part_of<T>(root), count); });
    if (rank() == root) ranks_[rank()]->sent.broadcast += (size() - 1) * call.bytes();
  }

  using ThreadCommunicator::barrier;
  void barrier(Stream& stream, zero::Label label = {}) const {
    exchange(stream, Call{}.labelled(label), [] {});
  }

 private:
  zero::detail::Caller caller() const { return {rank(), size()}; }

  /// What a rank shows to the others, who read it between two meetings.
  struct Rank {
    Call call;
    zero::CudaEvent ready, done;
    zero::Traffic sent;
  };

  template <class F>
  void exchange(Stream& stream, const Call& call, const F& work) const {
    if (stream.capturing()) {
      caller().refuse(call, "work of several ranks on one device cannot be captured. Use one rank");
    }
    Rank& mine = *ranks_[rank()];
    stream.wait(mine.done);  // of the last collective, on whatever stream
    mine.call = call;
    stream.record(mine.ready);
    meet(call);
    if (zero::detail::disagree(*this)) {
      abort(zero::detail::text_of_disagreement(*this));
      meet(call);  // throws
    }
    for (const auto& other : ranks_) stream.wait(other->ready);
    work();
    stream.record(mine.done);
    meet(call);
    for (const auto& other : ranks_) stream.wait(other->done);
  }

  void meet(const Call& call) const {
    zero::Label label{call.operation, call.unit, call.position, call.micro_step};
    if (label.operation == nullptr && call.collective != zero::Collective::barrier) {
      label.operation = zero::name_of(call.collective);
    }
    meeting_.barrier(label);
  }

  template <class T>
  const T* part_of(std::size_t rank) const {
    return static_cast<const T*>(ranks_[rank]->call.in);
  }
  template <class T>
  static void copy_elements(Stream& stream, T* to, const T* from, std::size_t count) {
    if (to != from && count != 0) copy(stream, to, from, count * sizeof(T));
  }
  template <class T>
  void sum(Stream& stream, std::size_t begin, T* out, std::size_t count,
           zero::Accumulate accumulate, zero::Reduction reduction) const {
    Parts parts{};
    for (std::size_t r = 0; r < size(); ++r) parts[r] = part_of<T>(r) + begin;
    sum_parts(stream.native(), parts, size(), zero::Array(out, count), accumulate, reduction);
  }

  // The two that tell of calls that disagree ask a group for them.
  template <class Group>
  friend bool zero::detail::disagree(const Group&);
  template <class Group>
  friend std::string zero::detail::text_of_disagreement(const Group&);
  const Call& call(std::size_t rank) const { return ranks_[rank]->call; }

  zero::ThreadCommunicator meeting_;
  std::vector<std::shared_ptr<Rank>> ranks_;
};

static_assert(zero::Communicator<DeviceCommunicator>);

/// Calls f(communicator) as each rank of one device, on threads; throws what one of them threw.
template <class F>
void on_one_device(std::size_t ranks, const F& f, zero::ThreadOptions options = {}) {
  zero::run_threads(
      ranks,
      [&](const zero::ThreadCommunicator& host) {
        DeviceCommunicator comm(host);
        f(comm);
      },
      options);
}

}  // namespace cuda_tests
