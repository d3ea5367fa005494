// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A group of tensors with padding between them, one part of it, and arrays of every type that are
// not a number wherever no tensor is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cuda/on_device.hpp>
#include <vector>
#include <zero/base/array.hpp>
#include <zero/layout/tensor_range.hpp>
#include <zero/optim/cast.hpp>

namespace on_device {

/// Elements [begin, begin + count) of the group.
struct Part {
  std::uint64_t begin = 0, count = 2560;

  static std::vector<zero::TensorRange> ranges() {
    std::vector<zero::TensorRange> made;
    std::uint64_t offset = 0;
    for (const std::uint64_t size : {5, 64, 1, 300, 0, 17, 2051}) {
      const auto tensor = static_cast<std::uint32_t>(made.size());
      made.push_back({offset, size, tensor, tensor == 3 ? 0U : 1U});
      offset += (size + 31) / 32 * 32;
    }
    return made;
  }
  /// Calls f(range, first, n) for each tensor with elements here: n from element `first` of the
  /// part.
  template <class F>
  void for_each_piece(const F& f) const {
    for (const zero::TensorRange& range : ranges()) {
      const std::uint64_t first = std::max(range.offset, begin);
      const std::uint64_t last = std::min(range.offset + range.size, begin + count);
      if (first < last) f(range, first - begin, last - first);
    }
  }
};
/// Whole, cut between and within tensors, one element, padding alone, nothing.
inline const std::vector<Part> parts = {{0, 2560},  {0, 640},   {640, 640}, {100, 1000},
                                        {99, 1001}, {2540, 20}, {96, 1},    {64, 0}};

/// An array of a type on the host, and a copy of it in device memory.
class Typed {
 public:
  Typed(zero::DataType type, std::size_t count)
      : type_(type), count_(count), bytes_(count * zero::size_of(type), std::byte{0xFF}) {}

  /// Sets the elements of tensors to value(element of the part).
  template <class F>
  void set(const Part& part, const F& value) {
    part.for_each_piece([&](const zero::TensorRange&, std::uint64_t first, std::uint64_t n) {
      for (std::uint64_t i = first; i < first + n; ++i) set(i, value(i));
    });
  }
  void set(std::size_t element, float value) {
    zero::cast(zero::Array(&value, 1), host().part(element, 1));
  }
  zero::Array host() { return {bytes_.data(), count_, type_}; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  zero::DataType type() const { return type_; }
  zero::Array device(const Copy<std::byte>& copy) const { return {copy.data(), count_, type_}; }

 private:
  zero::DataType type_;
  std::size_t count_;
  std::vector<std::byte> bytes_;
};

/// Numbers of both signs and several magnitudes.
inline float some(std::uint64_t i, std::uint32_t salt) {
  const std::uint32_t x = (static_cast<std::uint32_t>(i) + salt * 977 + 1) * 2654435761U;
  const float fraction = static_cast<float>(x >> 8) * 0x1p-23F - 1;
  return fraction * (x % 7 == 0 ? 64.0F : x % 5 == 0 ? 0x1p-9F : 1.0F);
}

}  // namespace on_device
