// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Stochastic gradient descent with momentum. May include base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <zero/base/host_device.hpp>
#include <zero/optim/detail/settings.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/optim/scheduled.hpp>

namespace zero {

/// Stochastic gradient descent:
///
///   m <- momentum m + (g + decay w)       w <- w - rate m
///
/// Without momentum and decay this is w - rate g, exact where the product and the difference are.
/// Decay is an addition to the gradient and is averaged by momentum, as in PyTorch's SGD.
struct Sgd {
  Scheduled learning_rate = 1e-2F;  // a number, or a function of the step
  float momentum = 0;               // 0 for none
  Scheduled weight_decay = 0;       // added to the gradient; of tensors that decay

  static constexpr std::size_t states = 1;  // m

  /// The numbers of one update.
  struct Coefficients {
    float rate, momentum, decay;  // as above
  };

  /// Refuses settings that make no sense, as a ContractError.
  void check() const {
    detail::check_scheduled("Sgd::learning_rate", learning_rate);
    detail::check_setting(std::isfinite(momentum) && momentum >= 0, "Sgd::momentum",
                          "a finite number from 0", momentum);
    detail::check_scheduled("Sgd::weight_decay", weight_decay);
  }

  /// The numbers of one update.
  Coefficients coefficients(std::int64_t, std::int64_t step, bool decay) const {
    return {learning_rate.at(step), momentum, decay ? weight_decay.at(step) : 0.0F};
  }

  /// Updates one element.
  ZERO_HOST_DEVICE static constexpr void element(const Coefficients& c, float gradient,
                                                 float& master, float& m) {
    m = c.momentum * m + (gradient + c.decay * master);
    master = master - c.rate * m;
  }
};

static_assert(Optimizer<Sgd>);

}  // namespace zero
