// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Scratch: an array that is filled anew for each schedule. Includes the standard library only.
#pragma once

#include <cstddef>

namespace zero::detail {

/// Working memory that keeps its capacity, a List that is only filled anew: one expression makes
/// all elements, which a List appends one by one. That counts where a compiler runs it.
template <class T>
class Scratch {
 public:
  constexpr Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  constexpr ~Scratch() { delete[] data_; }

  /// Makes it `size` new elements.
  constexpr void reset(std::size_t size) {
    size_ = size;
    if (size > capacity_) {
      T* const data = new T[size]{};
      delete[] data_;
      data_ = data;
      capacity_ = size;
    } else {
      for (std::size_t i = 0; i < size; ++i) data_[i] = T{};
    }
  }
  /// Obtains room for `size` elements, so that reset allocates none up to there.
  constexpr void reserve(std::size_t size) {
    if (size > capacity_) reset(size);
  }
  constexpr T& operator[](std::size_t i) { return data_[i]; }
  constexpr const T& operator[](std::size_t i) const { return data_[i]; }
  constexpr T* data() { return data_; }
  constexpr const T* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }
  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace zero::detail
