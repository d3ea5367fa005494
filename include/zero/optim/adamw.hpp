// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// AdamW. May include base/.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <zero/base/host_device.hpp>
#include <zero/optim/detail/settings.hpp>
#include <zero/optim/detail/square_root.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/optim/scheduled.hpp>

namespace zero {

/// Adam with weight decay that is decoupled from the gradient:
///
///   m <- b1 m + (1 - b1) g                v <- b2 v + (1 - b2) g^2
///   w <- w - rate ((m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon) + decay w)
///
/// t counts the updates of the tensor. The paper scales the direction with alpha and both terms
/// with a schedule eta; here the learning rate is alpha * eta and scales both, as in PyTorch's
/// AdamW.
///
/// Pre:     0 <= beta < 1; epsilon > 0.
/// Source:  Loshchilov & Hutter, Decoupled weight decay regularization, 2019, algorithm 2.
struct AdamW {
  Scheduled learning_rate = 3e-4F;  // a number, or a function of the step
  float beta1 = 0.9F;               // of the mean of gradients
  float beta2 = 0.999F;             // of the mean of their squares
  float epsilon = 1e-8F;            // added to the root of the latter
  Scheduled weight_decay = 0.01F;   // decoupled; of tensors that decay

  static constexpr std::size_t states = 2;  // m, v

  /// The numbers of one update.
  struct Coefficients {
    float beta1, new1, beta2, new2;  // new = 1 - beta
    float decay;                     // rate * weight_decay
    float rate;                      // rate / (1 - b1^t)
    float root_scale;                // 1 / sqrt(1 - b2^t)
    float epsilon;                   // as above
  };

  /// Refuses settings that make no sense, as a ContractError.
  void check() const {
    detail::check_scheduled("AdamW::learning_rate", learning_rate);
    detail::check_share("AdamW::beta1", beta1);
    detail::check_share("AdamW::beta2", beta2);
    detail::check_positive("AdamW::epsilon", epsilon);
    detail::check_scheduled("AdamW::weight_decay", weight_decay);
  }

  /// The corrections are taken in double, once per tensor.
  Coefficients coefficients(std::int64_t counter, std::int64_t step, bool decay) const {
    const double rate = learning_rate.at(step), b1 = beta1, b2 = beta2;
    const auto t = static_cast<double>(counter);
    return {.beta1 = beta1,
            .new1 = static_cast<float>(1 - b1),
            .beta2 = beta2,
            .new2 = static_cast<float>(1 - b2),
            .decay = decay ? static_cast<float>(rate * weight_decay.at(step)) : 0.0F,
            .rate = static_cast<float>(rate / (1 - std::pow(b1, t))),
            .root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(b2, t))),
            .epsilon = epsilon};
  }

  /// Updates one element.
  ZERO_HOST_DEVICE static constexpr void element(const Coefficients& c, float gradient,
                                                 float& master, float& m, float& v) {
    m = c.beta1 * m + c.new1 * gradient;
    v = c.beta2 * v + c.new2 * gradient * gradient;
    const float divisor = detail::square_root(v) * c.root_scale + c.epsilon;
    master -= c.rate * m / divisor + c.decay * master;
  }
};

static_assert(Optimizer<AdamW>);

}  // namespace zero
