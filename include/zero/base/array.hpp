// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Array: elements whose type is known when the program runs. Includes base/.
#pragma once

#include <cstddef>
#include <type_traits>
#include <zero/base/element.hpp>
#include <zero/base/host_device.hpp>

namespace zero {

/// Calls `f.template operator()<T>()` for the type that `type` names: float, bf16 or fp16.
template <class F>
constexpr decltype(auto) with_type(DataType type, F f) {
  switch (type) {
    case DataType::bf16: return f.template operator()<bf16>();
    case DataType::fp16: return f.template operator()<fp16>();
    default: return f.template operator()<float>();
  }
}

/// A view of `count` floats, bf16 or fp16; it owns nothing. Its data may be null: then it says only
/// how large an array would be.
struct Array {
  std::byte* data = nullptr;       // the first element
  std::size_t count = 0;           // elements
  DataType type = DataType::fp32;  // of each element

  Array() = default;
  /// `length` elements of type `of` from `elements` on.
  Array(void* elements, std::size_t length, DataType of)
      : data(static_cast<std::byte*>(elements)), count(length), type(of) {}
  /// An array that is read only, by agreement.
  template <class T>
  Array(T* elements, std::size_t length)
      : Array(const_cast<std::remove_const_t<T>*>(elements), length,
              data_type<std::remove_const_t<T>>) {}

  /// How many bytes the elements have.
  ZERO_HOST_DEVICE std::size_t bytes() const { return count * size_of(type); }
  /// Pre:     T is the type of the elements.
  template <class T>
  ZERO_HOST_DEVICE T* as() const {
    return reinterpret_cast<T*>(data);
  }
  /// `length` elements from number `begin` on.
  Array part(std::size_t begin, std::size_t length) const {
    return {data == nullptr ? nullptr : data + begin * size_of(type), length, type};
  }
};

}  // namespace zero
