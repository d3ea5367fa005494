// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A kind of units for tests of modules on CUDA, and what its backward pass adds to gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <zero/base/element.hpp>
#include <zero/base/host_device.hpp>
#include <zero/layout/fields.hpp>
#include <zero/layout/tensor.hpp>

namespace cuda_tests {

struct Sizes {
  std::size_t rows, columns;
};

template <class T>
struct Layer {
  zero::Tensor<T> weight;
  zero::Tensor<float> bias;
  static auto tensors(const Sizes& sizes) {
    return zero::tensors(zero::tensor("weight", &Layer::weight, {sizes.rows, sizes.columns}),
                         zero::tensor("bias", &Layer::bias, {sizes.columns}, zero::no_decay));
  }
};

/// What a backward pass adds to the gradient of an element: the same on every device.
struct Gradient {
  static constexpr float infinity = std::numeric_limits<float>::infinity();

  std::uint64_t key;
  bool exact, not_finite;

  ZERO_HOST_DEVICE float operator()(std::uint64_t i, float weight) const {
    const auto number = static_cast<float>((i * 7 + key * 13) % 17) - 8;
    if (not_finite && i == 3) return infinity;
    return exact ? number : number * 0.37F + weight * 0.11F;
  }
};

template <class T>
__global__ void add_gradient(const T* weight, float* gradient, std::size_t count, Gradient g) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) gradient[i] += g(i, zero::to_float(weight[i]));
}

}  // namespace cuda_tests
