// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Mistakes in the declaration of a unit kind.
#include <zero/base/element.hpp>
#include <zero/layout/fields.hpp>

#ifndef WRONG
#define WRONG 0
#endif

struct Config {
  int width = 1;
};
struct OtherConfig {};

template <class T>
struct Block {
#if WRONG == 4  // expect: zero: tensors() of this unit kind must return zero::tensors(
  zero::Tensor<double> weight;
#else
  zero::Tensor<T> weight;
#endif
#if WRONG == 1    // expect: zero: this unit kind has no 'static constexpr auto tensors(
#elif WRONG == 2  // expect: zero: tensors() of this unit kind must return zero::tensors(
  static constexpr auto tensors(const Config& c) {
    return zero::tensor("weight", &Block::weight, {c.width});
  }
#elif WRONG == 3  // expect: zero: this unit kind has no 'static constexpr auto tensors(
  static constexpr auto tensors(const OtherConfig&) {
    return zero::tensors(zero::tensor("weight", &Block::weight, {1}));
  }
#else
  static constexpr auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("weight", &Block::weight, {c.width}));
  }
#endif
};

#if WRONG == 5  // expect: zero: tensors() of this unit kind must return zero::tensors(
template <class T>
struct Copied {  // declares the members of another kind
  zero::Tensor<T> weight;
  static constexpr auto tensors(const Config& c) { return Block<T>::tensors(c); }
};
const auto copied = zero::specs_of<Copied>(Config{});
#elif WRONG != 4
const auto specs = zero::specs_of<Block>(Config{});
#endif
#if WRONG == 0 || WRONG == 4
const auto view = zero::view_of<Block, zero::bf16>(Config{}, [](auto) { return nullptr; });
#endif
