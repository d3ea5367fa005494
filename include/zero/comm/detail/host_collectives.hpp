// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The collectives of ranks in host memory: checks arguments, then runs or enqueues a task.
// Includes base/, device/host_stream.hpp and comm/detail/text.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/comm/collective.hpp>
#include <zero/comm/detail/text.hpp>
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
  std::size_t rank() const { return member_->rank(); }
  std::size_t size() const { return member_->size(); }
  Traffic sent() const { return member_->sent(); }

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
    run(gather_call(in, out, count, label));
  }
  template <Element T>
  void all_gather(HostStream& stream, const T* in, T* out, std::size_t count,
                  Label label = {}) const {
    enqueue(stream, gather_call(in, out, count, label));
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
    run(broadcast_call(data, count, root, label));
  }
  template <Element T>
  void broadcast(HostStream& stream, T* data, std::size_t count, std::size_t root,
                 Label label = {}) const {
    enqueue(stream, broadcast_call(data, count, root, label));
  }

  void barrier(Label label = {}) const { run(Call{}.labelled(label)); }
  void barrier(HostStream& stream, Label label = {}) const {
    enqueue(stream, Call{}.labelled(label));
  }

 protected:
  using Member = typename Task::Member;

  explicit HostCollectives(std::shared_ptr<Member> member) : member_(std::move(member)) {}

  const std::shared_ptr<Member>& member() const { return member_; }
  void run(const Call& call) const { Task(member_, call).wait(); }

 private:
  void enqueue(HostStream& stream, const Call& call) const {
    stream.enqueue(name_of(call.collective), Task(member_, call));
  }

  template <class T>
  Call gather_call(const T* in, T* out, std::size_t count, const Label& label) const {
    const Call call = Call{.collective = Collective::all_gather,
                           .type = data_type<T>,
                           .count = count,
                           .in = in,
                           .out = out}
                          .labelled(label);
    check<T>(call, size());
    check_overlap(call, in, out);
    return call;
  }

  template <class T>
  Call scatter_call(const T* in, T* out, std::size_t count, Accumulate accumulate,
                    const Label& label, Reduction reduction) const {
    const Call call = Call{.collective = Collective::reduce_scatter,
                           .type = data_type<T>,
                           .accumulate = accumulate,
                           .reduction = reduction,
                           .count = count,
                           .in = in,
                           .out = out,
                           .sum = Task::template sum_of<T>()}
                          .labelled(label);
    check<T>(call, size());
    check_overlap(call, out, in);
    return call;
  }

  template <class T>
  Call reduce_call(T* data, std::size_t count, const Label& label, Reduction reduction) const {
    const Call call = Call{.collective = Collective::all_reduce,
                           .type = data_type<T>,
                           .reduction = reduction,
                           .count = count,
                           .in = data,
                           .out = data,
                           .sum = Task::template sum_of<T>()}
                          .labelled(label);
    check<T>(call, 1);
    return call;
  }

  template <class T>
  Call broadcast_call(T* data, std::size_t count, std::size_t root, const Label& label) const {
    const Call call = Call{.collective = Collective::broadcast,
                           .type = data_type<T>,
                           .root = static_cast<std::uint32_t>(root),
                           .count = count,
                           .in = data,
                           .out = data}
                          .labelled(label);
    check<T>(call, 1);
    if (root >= size()) refuse(call, "the root is none of the ranks. Pass a rank below size()");
    return call;
  }

  template <class T>
  void check(const Call& call, std::size_t parts) const {
    if (call.count > SIZE_MAX / sizeof(T) / parts) {
      refuse(call, "the buffers exceed the address space. Pass a count of elements per rank");
    }
    if (call.count != 0 && (call.in == nullptr || call.out == nullptr)) {
      refuse(call, "a buffer is null. Pass null with a count of 0 only");
    }
  }

  /// Refuses buffers that overlap, unless the smaller one is exactly this rank's part.
  template <class T>
  void check_overlap(const Call& call, const T* part, const T* all) const {
    const std::less<const T*> before;
    if (call.count == 0 || part == all + rank() * call.count) return;
    if (before(part, all + size() * call.count) && before(all, part + call.count)) {
      refuse(call,
             "the buffers overlap. Pass separate ones, or this rank's part of the larger one");
    }
  }

  [[noreturn]] void refuse(const Call& call, const std::string& why) const {
    throw ContractError(text_of(call) + " " + member_->text() + ": " + why + ".");
  }

  std::shared_ptr<Member> member_;
};

}  // namespace zero::detail
