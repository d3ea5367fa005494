// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Numbers that are given one by one. Includes base/ only.
#pragma once
#include <cstddef>
#include <span>
#include <zero/base/array.hpp>
#include <zero/base/element.hpp>

namespace zero::detail {

/// A function float(element), so that what takes it is compiled once for all functions. It refers
/// to the function.
class Numbers {
 public:
  template <class F>
  Numbers(const F& value) : value_(&value), fill_(&fill_from<F>) {}  // NOLINT: it is one

  /// Makes `out` the numbers from `first` on.
  void fill(std::size_t first, std::span<float> out) const { fill_(value_, first, out); }

 private:
  template <class F>
  static void fill_from(const void* value, std::size_t first, std::span<float> out) {
    const F& number = *static_cast<const F*>(value);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = number(first + i);
  }

  const void* value_;
  void (*fill_)(const void*, std::size_t, std::span<float>);
};

/// Rounds numbers to the nearest that have this type.
inline void round_to(DataType type, std::span<float> numbers) {
  if (type == DataType::fp32) return;
  with_type(type, [&]<class Narrow>() {
    for (float& x : numbers) x = to_float(from_float<Narrow>(x));
  });
}

}  // namespace zero::detail
