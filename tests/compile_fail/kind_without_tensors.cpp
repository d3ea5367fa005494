// expect: zero: this unit kind has no `static constexpr auto tensors(const Config&)`
// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <zero/layout/fields.hpp>

struct Config {};

template <class T>
struct Block {
  zero::Tensor<T> weight;
};

const auto specs = zero::specs_of<Block>(Config{});
