// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Calls of collectives, made from arguments that are checked. Includes base/ and
// comm/detail/text.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <zero/base/error.hpp>
#include <zero/comm/collective.hpp>
#include <zero/comm/detail/text.hpp>

namespace zero::detail {

/// One rank of a communicator as it calls collectives; see Communicator for what is refused.
struct Caller {
  std::size_t rank, size;

  /// "on rank 1 of 4"
  std::string text() const {
    return "on rank " + std::to_string(rank) + " of " + std::to_string(size);
  }
  [[noreturn]] void refuse(const Call& call, const std::string& why) const {
    throw ContractError(text_of(call) + " " + text() + ": " + why + ".");
  }

  template <Element T>
  Call all_gather(const T* in, T* out, std::size_t count, const Label& label) const {
    const Call call = Call{.collective = Collective::all_gather,
                           .type = data_type<T>,
                           .count = count,
                           .in = in,
                           .out = out}
                          .labelled(label);
    check(call, size);
    check_overlap(call, in, out);
    return call;
  }
  template <Element T>
  Call reduce_scatter(const T* in, T* out, std::size_t count, Accumulate accumulate,
                      const Label& label, Reduction reduction) const {
    const Call call = Call{.collective = Collective::reduce_scatter,
                           .type = data_type<T>,
                           .accumulate = accumulate,
                           .reduction = reduction,
                           .count = count,
                           .in = in,
                           .out = out}
                          .labelled(label);
    check(call, size);
    check_overlap(call, out, in);
    return call;
  }
  template <Element T>
  Call all_reduce(T* data, std::size_t count, const Label& label, Reduction reduction) const {
    const Call call = Call{.collective = Collective::all_reduce,
                           .type = data_type<T>,
                           .reduction = reduction,
                           .count = count,
                           .in = data,
                           .out = data}
                          .labelled(label);
    check(call, 1);
    return call;
  }
  template <Element T>
  Call broadcast(T* data, std::size_t count, std::size_t root, const Label& label) const {
    const Call call = Call{.collective = Collective::broadcast,
                           .type = data_type<T>,
                           .root = static_cast<std::uint32_t>(root),
                           .count = count,
                           .in = data,
                           .out = data}
                          .labelled(label);
    check(call, 1);
    if (root >= size) refuse(call, "the root is none of the ranks. Pass a rank below size()");
    return call;
  }

 private:
  void check(const Call& call, std::size_t parts) const {
    if (call.count > SIZE_MAX / size_of(call.type) / parts) {
      refuse(call, "the buffers exceed the address space. Pass a count of elements per rank");
    }
    if (call.count != 0 && (call.in == nullptr || call.out == nullptr)) {
      refuse(call, "a buffer is null. Pass null with a count of 0 only");
    }
  }
  /// Refuses buffers that overlap, unless the smaller one is exactly this rank's part.
  template <class T>
  void check_overlap(const Call& call, const T* part, const T* all) const {
    // As numbers, since pointers into two arrays have no order.
    const auto before = [](const T* a, const T* b) {
      return reinterpret_cast<std::uintptr_t>(a) < reinterpret_cast<std::uintptr_t>(b);
    };
    if (call.count == 0 || part == all + rank * call.count) return;
    if (before(part, all + size * call.count) && before(all, part + call.count)) {
      refuse(call,
             "the buffers overlap. Pass separate ones, or this rank's part of the larger one");
    }
  }
};

}  // namespace zero::detail
