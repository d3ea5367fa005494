// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// List: elements in one piece of memory, in their order. Includes the standard library only.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <new>
#include <type_traits>
#include <utility>

namespace zero {

/// What zero.hpp and cuda.hpp hold and return in place of a std::vector, used in the same way: a
/// range of contiguous elements that grows at its end; constant expressions may have one. It exists
/// since each std::vector of a type of one's own takes g++ 8 ms to include and 50 functions to
/// emit: together a quarter of what a small program that trains with zero takes to compile. What
/// zero does not use is left out. Elements can be default-constructed.
///
/// Errors:  what making an element throws, and std::bad_alloc; the elements that there were stay,
///          unless they are being assigned to.
template <class T>
class List {
 public:
  using value_type = T;             ///< what it holds
  using iterator = T*;              ///< for ranges
  using const_iterator = const T*;  ///< the same of a list that is constant

  constexpr List() = default;
  /// `count` new elements, zero where T is a number.
  constexpr explicit List(std::size_t count) : List() {
    obtain(count);
    while (size_ < count) append();
  }
  /// `count` copies of `value`.
  constexpr List(std::size_t count, const T& value) : List() { resize(count, value); }
  /// Copies of the elements from `first` to before `last`.
  template <class It>
  requires(!std::is_integral_v<It>) constexpr List(It first, It last) : List() {
    assign(first, last);
  }
  /// The elements that are written down.
  constexpr List(std::initializer_list<T> elements) : List(elements.begin(), elements.end()) {}
  /// Copies of the elements of a std::vector, or another such range.
  template <class Range>
  requires(std::is_same_v<typename Range::value_type, T>) constexpr List(const Range& elements)
      : List(elements.begin(), elements.end()) {}
  /// Copies of the elements of `other`.
  constexpr List(const List& other) : List(other.begin(), other.end()) {}
  /// The elements of `other`, which is empty then.
  constexpr List(List&& other) noexcept { swap(other); }
  /// Keeps the memory that there is, if it suffices.
  constexpr List& operator=(const List& other) {
    if (this != &other) assign(other.begin(), other.end());
    return *this;
  }
  /// The elements of `other`, which is empty then.
  constexpr List& operator=(List&& other) noexcept {
    List taken(std::move(other));
    swap(taken);
    return *this;
  }
  constexpr ~List() { give_back(); }

  /// How many elements it holds.
  constexpr std::size_t size() const { return size_; }
  /// Whether it holds none.
  constexpr bool empty() const { return size_ == 0; }
  /// For how many elements there is room.
  constexpr std::size_t capacity() const { return capacity_; }
  /// The first element.
  constexpr T* data() { return data_; }
  /// The same of a list that is constant.
  constexpr const T* data() const { return data_; }
  /// Where the range begins.
  constexpr T* begin() { return data_; }
  /// The same of a list that is constant.
  constexpr const T* begin() const { return data_; }
  /// Where the range ends.
  constexpr T* end() { return data_ + size_; }
  /// The same of a list that is constant.
  constexpr const T* end() const { return data_ + size_; }
  /// Pre:     i is below size().
  constexpr T& operator[](std::size_t i) { return data_[i]; }
  /// The same of a list that is constant.
  constexpr const T& operator[](std::size_t i) const { return data_[i]; }
  /// Pre:     it is not empty.
  constexpr T& front() { return data_[0]; }
  /// The same of a list that is constant.
  constexpr const T& front() const { return data_[0]; }
  /// Pre:     it is not empty.
  constexpr T& back() { return data_[size_ - 1]; }
  /// The same of a list that is constant.
  constexpr const T& back() const { return data_[size_ - 1]; }

  /// Obtains room for `count` elements, so that none is moved up to there.
  constexpr void reserve(std::size_t count) {
    if (count <= capacity_) return;
    List larger;
    larger.obtain(count);
    for (T& element : *this) {
      static_assert(noexcept(T(std::move(element))));  // a growing list loses nothing
      larger.append(std::move(element));
    }
    swap(larger);
  }
  /// Appends an element made of `arguments`, which may be of this list.
  template <class... Arguments>
  constexpr T& emplace_back(Arguments&&... arguments) {
    T element(std::forward<Arguments>(arguments)...);
    grow(size_ + 1);
    return append(std::move(element));
  }
  /// Appends an element, which may be of this list.
  constexpr void push_back(T element) {
    grow(size_ + 1);
    append(std::move(element));
  }
  /// Puts `element` before the one at `where`.
  constexpr void insert(const T* where, T element) {
    const std::size_t at = static_cast<std::size_t>(where - data_);
    push_back(std::move(element));
    for (std::size_t i = size_ - 1; i > at; --i) std::swap(data_[i - 1], data_[i]);
  }
  /// The same with copies of the elements from `first` to before `last`, none of this list.
  template <class It>
  constexpr void insert(const T* where, It first, It last) {
    std::size_t at = static_cast<std::size_t>(where - data_);
    for (; first != last; ++first, ++at) insert(data_ + at, *first);
  }
  /// Drops the last element; the memory stays. Pre: it is not empty.
  constexpr void pop_back() { drop(size_ - 1); }
  /// Drops all elements; the memory stays.
  constexpr void clear() { drop(0); }
  /// Removes the elements for which `unwanted(element)` holds.
  template <class Unwanted>
  constexpr void erase_if(Unwanted unwanted) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      if (unwanted(std::as_const(data_[i]))) continue;
      if (kept != i) data_[kept] = std::move(data_[i]);
      ++kept;
    }
    drop(kept);
  }
  /// Drops elements at the end, or appends copies of `value`, which is not of this list.
  constexpr void resize(std::size_t count, const T& value = {}) {
    drop(count);
    grow(count);
    while (size_ < count) append(value);
  }
  /// Holds `count` copies of `value`, which is not of this list, and nothing else.
  constexpr void assign(std::size_t count, const T& value) {
    clear();
    resize(count, value);
  }
  /// Holds copies of the elements from `first` to before `last`, none of this list.
  template <class It>
  requires(!std::is_integral_v<It>) constexpr void assign(It first, It last) {
    clear();
    if constexpr (requires { static_cast<std::size_t>(last - first); }) {
      reserve(static_cast<std::size_t>(last - first));
    }
    for (; first != last; ++first) push_back(*first);
  }
  /// Exchanges the elements of two lists; none is moved.
  constexpr void swap(List& other) noexcept {
    T* const data = data_;
    const std::size_t size = size_, capacity = capacity_;
    data_ = other.data_, size_ = other.size_, capacity_ = other.capacity_;
    other.data_ = data, other.size_ = size, other.capacity_ = capacity;
  }
  friend constexpr bool operator==(const List& a, const List& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i) {
      if (!(a.data_[i] == b.data_[i])) return false;
    }
    return true;
  }

 private:
  // Memory is raw, but in constant expressions, which know none: there all elements for which there
  // is room exist, and those past the end are as new.

  /// Obtains the memory of a list that has none.
  constexpr void obtain(std::size_t count) {
    if (count == 0) return;
    if (std::is_constant_evaluated()) {
      data_ = new T[count]{};
    } else {
      if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
      data_ = static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(alignof(T))));
    }
    capacity_ = count;
  }
  constexpr void give_back() {
    if (std::is_constant_evaluated()) {
      delete[] data_;
    } else {
      clear();
      ::operator delete(data_, std::align_val_t(alignof(T)));
    }
  }
  /// Obtains room for `count` elements, twice what there was at least.
  constexpr void grow(std::size_t count) {
    if (count > capacity_) reserve(count > 2 * capacity_ ? count : 2 * capacity_);
  }
  /// Appends where there is room.
  template <class... Arguments>
  constexpr T& append(Arguments&&... arguments) {
    T& place = data_[size_];
    if (std::is_constant_evaluated()) {
      if constexpr (sizeof...(arguments) != 0) place = T(std::forward<Arguments>(arguments)...);
    } else {
      ::new (static_cast<void*>(&place)) T(std::forward<Arguments>(arguments)...);
    }
    ++size_;
    return place;
  }
  constexpr void drop(std::size_t count) {
    while (size_ > count) {
      --size_;
      if (std::is_constant_evaluated()) {
        if constexpr (requires { data_[0] = T{}; }) data_[size_] = T{};
      } else {
        data_[size_].~T();
      }
    }
  }

  T* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace zero
