// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What a rank holds, for a host that cannot reach the memory of its device. May include anything
// below module/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <zero/base/array.hpp>
#include <zero/base/element.hpp>
#include <zero/base/list.hpp>
#include <zero/checkpoint/held_state.hpp>

namespace zero::detail {

/// A copy of a HeldState's numbers in memory of the host. It is as large as they are, and kept for
/// the next time.
class HeldCopy {
 public:
  /// Copies all numbers but those that lie in `host`, and makes the list point to the copies.
  template <class Streams>
  void take(HeldState& state, Streams& streams, std::span<const std::byte> host) {
    places_.clear();
    std::size_t bytes = 0;
    const auto for_each_range = [&](HeldState& of, auto f) {
      for_each(of, [&](HeldRange& range, DataType type) {
        const auto at = reinterpret_cast<std::uintptr_t>(range.data);
        const auto begin = reinterpret_cast<std::uintptr_t>(host.data());
        if (at < begin || at - begin >= host.size()) f(range, type);
      });
    };
    for_each_range(state, [&](HeldRange& range, DataType type) {
      places_.push_back({Array(range.data, range.count, type), bytes});
      bytes += (places_.back().held.bytes() + 7) / 8 * 8;
    });
    if (numbers_.size() < bytes) numbers_.resize(bytes);
    std::size_t place = 0;
    for_each_range(state, [&](HeldRange& range, DataType type) {
      const Place& from = places_[place++];
      std::byte* const to = numbers_.data() + from.offset;
      range.data = to;
      streams.read(from.held, [&](const Array& part, std::size_t begin) {
        std::memcpy(to + begin * size_of(type), part.data, part.bytes());
      });
    });
  }
  /// The way back, after the copies were replaced.
  template <class Streams>
  void give_back(Streams& streams) const {
    for (const Place& place : places_) {
      const std::byte* const from = numbers_.data() + place.offset;
      streams.write(place.held, [&](const Array& part, std::size_t begin) {
        std::memcpy(part.data, from + begin * size_of(part.type), part.bytes());
      });
    }
  }

 private:
  struct Place {
    Array held;  // in memory of the device
    std::size_t offset;
  };
  template <class F>
  static void for_each(HeldState& state, F f) {
    for (HeldTensor& tensor : state.tensors) {
      for (HeldPart& part : tensor.parts) {
        for (HeldRange& range : part.ranges) f(range, part.type);
        for (HeldRange& range : part.copies) f(range, part.copy_type);
      }
    }
  }

  List<Place> places_;
  List<std::byte> numbers_;
};

}  // namespace zero::detail
