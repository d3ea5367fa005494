// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The collectives of ranks in host memory: checks arguments, then runs or enqueues a task.
// Includes base/, device/host_stream.hpp and comm/detail/caller.hpp.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/comm/collective.hpp>
#include <zero/comm/detail/caller.hpp>
#include <zero/device/host_stream.hpp>

namespace zero::detail {

/// The members that communicators in host memory have in common; see Communicator for what each
/// means. Those without a stream run on the calling thread and return when they are done.
///
/// A Task is a collective of one rank that is polled: Task(member, call), wait() to block until it
/// is done, sum_of<T>() for Call::sum. Its Member is the rank: rank(), size(), text(), sent() and
/// fail(timeout, what), which makes the collectives of all ranks fail.
template <class Task>
class HostCollectives {
 public:
  std::size_t rank() const { return member()->rank(); }
  std::size_t size() const { return member()->size(); }
  Traffic sent() const { return member()->sent(); }

  /// Makes every present and later collective of this communicator fail, on all ranks, and those
  /// of the communicators that it was split from or into.
  void abort(std::string_view why) const noexcept {
    if (member_ == nullptr) return;  // moved from
    try {
      std::string text = "aborted " + member_->text() + ": ";
      member_->fail(false, text.append(why));
    } catch (...) { member_->fail(false, why); }
  }

  template <Element T>
  void all_gather(const T* in, T* out, std::size_t count, Label label = {}) const {
    run(caller().all_gather(in, out, count, label));
  }
  template <Element T>
  void all_gather(HostStream& stream, const T* in, T* out, std::size_t count,
                  Label label = {}) const {
    enqueue(stream, caller().all_gather(in, out, count, label));
  }

  template <Element T>
  void reduce_scatter(const T* in, T* out, std::size_t count, Accumulate accumulate = {},
                      Label label = {}, Reduction reduction = {}) const {
    run(scatter_call(in, out, count, accumulate, label, reduction));
  }
  template <Element T>
  void reduce_scatter(HostStream& stream, const T* in, T* out, std::size_t count,
                      Accumulate accumulate = {}, Label label = {},
                      Reduction reduction = {}) const {
    enqueue(stream, scatter_call(in, out, count, accumulate, label, reduction));
  }

  template <Element T>
  void all_reduce(T* data, std::size_t count, Label label = {}, Reduction reduction = {}) const {
    run(reduce_call(data, count, label, reduction));
  }
  template <Element T>
  void all_reduce(HostStream& stream, T* data, std::size_t count, Label label = {},
                  Reduction reduction = {}) const {
    enqueue(stream, reduce_call(data, count, label, reduction));
  }

  template <Element T>
  void broadcast(T* data, std::size_t count, std::size_t root, Label label = {}) const {
    run(caller().broadcast(data, count, root, label));
  }
  template <Element T>
  void broadcast(HostStream& stream, T* data, std::size_t count, std::size_t root,
                 Label label = {}) const {
    enqueue(stream, caller().broadcast(data, count, root, label));
  }

  void barrier(Label label = {}) const { run(Call{}.labelled(label)); }
  void barrier(HostStream& stream, Label label = {}) const {
    enqueue(stream, Call{}.labelled(label));
  }

 protected:
  using Member = typename Task::Member;

  explicit HostCollectives(std::shared_ptr<Member> member) : member_(std::move(member)) {}

  /// Errors:  ContractError if this object was moved from.
  const std::shared_ptr<Member>& member() const {
    if (member_ != nullptr) return member_;
    throw ContractError(
        "zero: a communicator was used that was moved from; use the one that it was moved into");
  }
  void run(const Call& call) const { Task(member(), call).wait(); }

 private:
  void enqueue(HostStream& stream, const Call& call) const {
    stream.enqueue(name_of(call.collective), Task(member(), call));
  }

  Caller caller() const { return {rank(), size()}; }

  template <class T>
  Call scatter_call(const T* in, T* out, std::size_t count, Accumulate accumulate,
                    const Label& label, Reduction reduction) const {
    Call call = caller().reduce_scatter(in, out, count, accumulate, label, reduction);
    call.sum = Task::template sum_of<T>();
    return call;
  }
  template <class T>
  Call reduce_call(T* data, std::size_t count, const Label& label, Reduction reduction) const {
    Call call = caller().all_reduce(data, count, label, reduction);
    call.sum = Task::template sum_of<T>();
    return call;
  }

  std::shared_ptr<Member> member_;
};

}  // namespace zero::detail
