// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// OwnedPiece: what a kernel of the caller's own updates on a CUDA device. May include base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <zero/base/host_device.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/optim/update.hpp>

namespace zero {

/// One contiguous piece of one tensor, of those that a rank updates: fp32, in device memory. What
/// its step has decided is there too, and known when the kernel runs.
template <class Coefficients, std::size_t States>
struct OwnedPiece {
  float* weights = nullptr;                    // [count] fp32 masters, where weights are narrower
  const float* gradient = nullptr;             // [count] as it was summed; see gradient_at
  float* states[States + 1] = {};              // [States][count]
  std::size_t count = 0;                       // elements
  std::size_t begin = 0;                       // which element of its tensor the first one is
  const Coefficients* coefficients = nullptr;  // the numbers of this update
  const UpdateDecision* decision = nullptr;    // what all ranks decided
  const std::uint8_t* present = nullptr;       // whether the tensor has a gradient

  /// Whether the kernel may write: not if the step is skipped, nor without a gradient of this
  /// tensor.
  ZERO_HOST_DEVICE bool applies() const { return decision->applied != 0 && *present != 0; }
  /// Element i of the gradient that counts: after division and clipping.
  ZERO_HOST_DEVICE float gradient_at(std::size_t i) const {
    return gradient[i] / decision->divisor * decision->clip;
  }
};

}  // namespace zero
