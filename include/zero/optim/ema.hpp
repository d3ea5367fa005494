// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// An optimizer that also averages the weights. Includes optim/optimizer.hpp and
// base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <zero/base/host_device.hpp>
#include <zero/optim/detail/settings.hpp>
#include <zero/optim/optimizer.hpp>

namespace zero {

/// An optimizer with an exponential moving average of the weights that it makes:
///
///   average <- decay average + (1 - decay) w, after each update of w; it starts at 0
///
/// The average is the last number of the state, after those of `optimizer`. A tensor that a step
/// does not update is not averaged either.
///
/// Pre:     0 <= decay < 1.
template <class O>
struct Ema {
  static_assert(ElementOptimizer<O>,
                "zero::Ema: it averages the weights of an optimizer that updates each element by "
                "itself; use AdamW, Sgd, Lion or one of your own with element().");
  O optimizer{};         // that updates the weights
  float decay = 0.999F;  // of the average, in each update

  static constexpr std::size_t average = O::states;     // its number among the states
  static constexpr std::size_t states = O::states + 1;  // those of the optimizer, and the average

  /// The numbers of one update.
  struct Coefficients {
    typename O::Coefficients optimizer;  // of the optimizer
    float decay, fresh;                  // fresh = 1 - decay
  };

  /// Refuses settings that make no sense, as a ContractError.
  void check() const {
    if constexpr (requires { optimizer.check(); }) optimizer.check();
    detail::check_share("Ema::decay", decay);
  }

  /// The numbers of one update.
  Coefficients coefficients(std::int64_t counter, std::int64_t step, bool decays) const {
    return {optimizer.coefficients(counter, step, decays), decay,
            static_cast<float>(1 - double{decay})};
  }

  /// Updates one element and its average.
  template <class... States>
  requires(sizeof...(States) == states) ZERO_HOST_DEVICE
      static constexpr void element(const Coefficients& c, float gradient, float& master,
                                    States&... numbers) {
    float* const all[] = {&numbers...};
    update(c, gradient, master, all, std::make_index_sequence<O::states>());
    float& mean = *all[average];
    mean = c.decay * mean + c.fresh * master;
  }

 private:
  template <std::size_t... I>
  ZERO_HOST_DEVICE static constexpr void update(const Coefficients& c, float gradient,
                                                float& master, float* const* all,
                                                std::index_sequence<I...>) {
    O::element(c.optimizer, gradient, master, *all[I]...);
  }
};

}  // namespace zero
