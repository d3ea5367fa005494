// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Shape, and Tensor: a view of elements that somebody else owns. May include base/.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <zero/base/check_level.hpp>
#include <zero/base/error.hpp>
#include <zero/layout/scope_watch.hpp>

namespace zero {

/// One dimension of a shape as the user writes it: any integer type, without narrowing.
struct Extent {
  /// What does not fit becomes -1, which Shape refuses.
  template <std::integral I>
  constexpr Extent(I extent) : value(fits(extent) ? static_cast<std::int64_t>(extent) : -1) {}

  std::int64_t value;  // negative where it was none

 private:
  template <class I>
  static constexpr bool fits(I extent) {
    if constexpr (std::is_signed_v<I>) {
      return extent >= I{0};
    } else {
      return sizeof(I) < sizeof(std::int64_t) ||
             extent <= static_cast<I>(std::numeric_limits<std::int64_t>::max());
    }
  }
};

/// The sizes of a tensor, slowest dimension first; `{}` is a single number, `{0}` has no elements.
///
/// Errors: ContractError for a negative dimension, more than four, or 2^63 elements or more.
struct Shape {
  static constexpr int max_rank = 4;  // the most dimensions

  std::int64_t dims[max_rank] = {};  // the first `rank` of them count
  int rank = 0;                      // how many dimensions

  constexpr Shape() = default;
  /// From its dimensions, the slowest first.
  constexpr Shape(std::initializer_list<Extent> extents) {
    if (extents.size() > max_rank) {
      throw ContractError("zero::Shape: a tensor has at most 4 dimensions, but " +
                          std::to_string(extents.size()) + " were given; merge some");
    }
    bool empty = false;
    for (const Extent extent : extents) {
      if (extent.value < 0) {
        throw ContractError("zero::Shape: a dimension must lie in [0, 2^63), but dimension " +
                            std::to_string(rank) + " does not; check what it is computed from");
      }
      dims[rank++] = extent.value;
      empty = empty || extent.value == 0;
    }
    std::int64_t room = empty ? 0 : std::numeric_limits<std::int64_t>::max();
    for (int i = 0; i < rank && !empty; ++i) {
      if (room < dims[i]) {
        throw ContractError("zero::Shape: a tensor must have fewer than 2^63 elements, but " +
                            std::to_string(rank) + " dimensions multiply to more; split it");
      }
      room /= dims[i];
    }
  }

  /// The product of the dimensions.
  constexpr std::size_t elements() const {
    std::size_t product = 1;
    for (int i = 0; i < rank; ++i) product *= static_cast<std::size_t>(dims[i]);
    return product;
  }
  friend constexpr bool operator==(const Shape&, const Shape&) = default;
};

/// A view of the elements of one tensor, row by row. It owns nothing and is copied freely; a
/// default one has no elements. `Tensor<const T>` is a view for reading.
///
/// Errors:  at check level 2, ContractError if the view was taken from a unit whose scope has
/// ended,
///          or for an element that is not there.
template <class T, int Level>
class BasicTensor : private detail::ViewCheck<Level> {
  using Check = detail::ViewCheck<Level>;

 public:
  using value_type = std::remove_const_t<T>;  // as the standard library names it
  static constexpr int check_level = Level;   // see ZERO_CHECK_LEVEL

  constexpr BasicTensor() = default;
  /// Pre:     `data` points to shape.elements() elements that outlive the view.
  constexpr BasicTensor(T* data, const Shape& shape, Check check = {})
      : Check(check), data_(data), shape_(shape) {}
  /// A view for reading of the same elements.
  template <class U>
  requires(std::is_same_v<const U, T> &&
           !std::is_same_v<U, T>) constexpr BasicTensor(const BasicTensor<U, Level>& other)
      : Check(other), data_(other.data_), shape_(other.shape_) {}
  /// A view of another level: it knows no scope.
  template <int Other>
  requires(Other != Level) constexpr BasicTensor(const BasicTensor<T, Other>& other)
      : data_(other.data()), shape_(other.shape()) {}

  /// The first element.
  constexpr T* data() const {
    this->use();
    return data_;
  }
  /// Of the whole tensor.
  constexpr const Shape& shape() const { return shape_; }
  /// Extent of dimension i.
  constexpr std::int64_t dim(int i) const { return shape_.dims[i]; }
  /// Elements.
  constexpr std::size_t size() const { return shape_.elements(); }

  /// Element i, in row-major order.
  constexpr T& operator[](std::size_t i) const {
    if constexpr (Check::watches) this->use(i, size());
    return data_[i];
  }
  /// The first element.
  constexpr T* begin() const { return data(); }
  /// Behind the last element.
  constexpr T* end() const { return data() + size(); }
  /// All elements.
  constexpr std::span<T> span() const { return {data(), size()}; }

 private:
  template <class, int>
  friend class BasicTensor;

  T* data_ = nullptr;
  Shape shape_{0};
};

static_assert(std::is_trivially_copyable_v<BasicTensor<float, 1>>);
static_assert(sizeof(BasicTensor<float, 1>) == sizeof(float*) + sizeof(Shape));

// The level belongs to the name, so that translation units of different levels name different
// types.
#if ZERO_CHECK_LEVEL >= 2
inline namespace check_level_2 {
#elif ZERO_CHECK_LEVEL == 1
inline namespace check_level_1 {
#else
inline namespace check_level_0 {
#endif
template <class T>
using Tensor = BasicTensor<T, ZERO_CHECK_LEVEL>;  // a view that is checked as ZERO_CHECK_LEVEL says
}

}  // namespace zero
