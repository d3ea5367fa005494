// expect: zero: this unit kind has no `static constexpr auto tensors(const Config&)`
// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <zero/layout/fields.hpp>

struct Config {
  int width = 1;
};
struct OtherConfig {};

template <class T>
struct Block {
  zero::Tensor<T> weight;
  static constexpr auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("weight", &Block::weight, {c.width}));
  }
};

const auto specs = zero::specs_of<Block>(OtherConfig{});
