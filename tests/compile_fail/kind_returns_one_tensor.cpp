// expect: zero: tensors() of this unit kind must return zero::tensors(
// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <zero/layout/fields.hpp>

struct Config {
  int width = 1;
};

template <class T>
struct Block {
  zero::Tensor<T> weight;
  static constexpr auto tensors(const Config& c) {
    return zero::tensor("weight", &Block::weight, {c.width});
  }
};

const auto specs = zero::specs_of<Block>(Config{});
