// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Lion. May include base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <zero/base/host_device.hpp>
#include <zero/optim/detail/settings.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/optim/scheduled.hpp>

namespace zero {

/// Moves each weight by the sign of an interpolated momentum, with decoupled weight decay:
///
///   w <- w - rate (sign(b1 m + (1 - b1) g) + decay w)       m <- b2 m + (1 - b2) g
///
/// Its rate is usually 3 to 10 times smaller than AdamW's and its decay as much larger. The sign of
/// 0 is 0.
///
/// Pre:     0 <= beta < 1.
/// Source:  Chen et al., Symbolic discovery of optimization algorithms, 2023, algorithm 2.
struct Lion {
  Scheduled learning_rate = 1e-4F;  // a number, or a function of the step
  float beta1 = 0.9F;               // of the update
  float beta2 = 0.99F;              // of the momentum
  Scheduled weight_decay = 0.1F;    // decoupled; of tensors that decay

  static constexpr std::size_t states = 1;  // m

  /// The numbers of one update.
  struct Coefficients {
    float beta1, new1, beta2, new2;  // new = 1 - beta
    float rate, decay;               // decay = rate * weight_decay
  };

  /// Refuses settings that make no sense, as a ContractError.
  void check() const {
    detail::check_scheduled("Lion::learning_rate", learning_rate);
    detail::check_share("Lion::beta1", beta1);
    detail::check_share("Lion::beta2", beta2);
    detail::check_scheduled("Lion::weight_decay", weight_decay);
  }

  /// The numbers of one update.
  Coefficients coefficients(std::int64_t, std::int64_t step, bool decay) const {
    const double rate = learning_rate.at(step);
    return {.beta1 = beta1,
            .new1 = static_cast<float>(1 - double{beta1}),
            .beta2 = beta2,
            .new2 = static_cast<float>(1 - double{beta2}),
            .rate = static_cast<float>(rate),
            .decay = decay ? static_cast<float>(rate * weight_decay.at(step)) : 0.0F};
  }

  /// Updates one element.
  ZERO_HOST_DEVICE static constexpr void element(const Coefficients& c, float gradient,
                                                 float& master, float& m) {
    const float direction = c.beta1 * m + c.new1 * gradient;
    const float sign = (direction > 0 ? 1.0F : 0.0F) - (direction < 0 ? 1.0F : 0.0F);
    m = c.beta2 * m + c.new2 * gradient;
    master -= c.rate * sign + c.decay * master;
  }
};

static_assert(Optimizer<Lion>);

}  // namespace zero
