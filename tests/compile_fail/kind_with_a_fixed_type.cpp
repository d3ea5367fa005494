// expect: zero: tensors() of this unit kind must return zero::tensors(
// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <zero/base/element.hpp>
#include <zero/layout/fields.hpp>

struct Config {
  int width = 1;
};

template <class T>
struct Block {
  zero::Tensor<float> weight;  // should be zero::Tensor<T>
  static constexpr auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("weight", &Block::weight, {c.width}));
  }
};

const auto view = zero::view_of<Block, zero::bf16>(Config{}, [](auto) { return nullptr; });
