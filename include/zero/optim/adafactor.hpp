// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Adafactor. May include base/ and layout/.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <zero/base/array.hpp>
#include <zero/layout/tensor.hpp>
#include <zero/optim/detail/direction.hpp>
#include <zero/optim/detail/settings.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/optim/scheduled.hpp>
#include <zero/optim/square_norm.hpp>
#include <zero/optim/update.hpp>

namespace zero {

/// Adam without a first moment, whose second moment of a matrix is kept as its means by row and by
/// column: rows + columns numbers, not rows * columns.
///
///   r <- b r + (1 - b) row means of (g^2 + epsilon)      c <- the same of columns
///   v = r c^T / mean(r)           (other tensors: v <- b v + (1 - b) (g^2 + epsilon))
///   u = g / sqrt(v)               u <- u / max(1, rms(u) / threshold)
///   w <- w - rate (max(least, rms(w)) u + decay w)             b = 1 - t^-0.8
///
/// rms is the root of the mean square over the tensor. Without scales_by_weights the factor
/// max(least, rms(w)) is 1. Each tensor lies whole on one rank, its owner, so that its means are
/// whole there; the layout cuts between tensors. A matrix has two dimensions, each above 1.
///
/// Pre:     epsilon, threshold and least > 0.
/// Source:  Shazeer and Stern, Adafactor, 2018, algorithms 4 to 6.
struct Adafactor {
  /// Relative to the size of the weights, unless scales_by_weights is false.
  Scheduled learning_rate = 1e-2F;
  float decay_power = 0.8F;       // beta of update t is 1 - t to the power of minus this
  float epsilon = 1e-30F;         // added to squares of the gradient
  float threshold = 1;            // the largest root mean square of an update
  float least = 1e-3F;            // the least size of weights that the rate is multiplied with
  bool scales_by_weights = true;  // whether the rate is multiplied with the size of the weights
  Scheduled weight_decay = 0;     // decoupled, as AdamW's

  static constexpr std::size_t states = 2;  // r and c; of other tensors v, and none
  /// Its elements depend on each other within a tensor.
  static constexpr std::size_t block = whole_tensor;

  /// The numbers of one update.
  struct Coefficients {
    float beta, fresh;                // fresh = 1 - beta
    float epsilon, threshold, least;  // as above
    float scales_by_weights;          // 0 or 1
    float rate, decay;                // decay = rate * weight_decay
  };

  /// Refuses settings that make no sense, as a ContractError.
  void check() const {
    detail::check_scheduled("Adafactor::learning_rate", learning_rate);
    detail::check_positive("Adafactor::decay_power", decay_power);
    detail::check_positive("Adafactor::epsilon", epsilon);
    detail::check_positive("Adafactor::threshold", threshold);
    detail::check_positive("Adafactor::least", least);
    detail::check_scheduled("Adafactor::weight_decay", weight_decay);
  }
  /// The numbers of one update.
  Coefficients coefficients(std::int64_t counter, std::int64_t step, bool decay) const {
    const double rate = learning_rate.at(step);
    const double fresh = std::pow(static_cast<double>(counter), -double{decay_power});
    return {.beta = static_cast<float>(1 - fresh),
            .fresh = static_cast<float>(fresh),
            .epsilon = epsilon,
            .threshold = threshold,
            .least = least,
            .scales_by_weights = scales_by_weights ? 1.0F : 0.0F,
            .rate = static_cast<float>(rate),
            .decay = decay ? static_cast<float>(rate * weight_decay.at(step)) : 0.0F};
  }

  /// How many numbers state k of a tensor has.
  static std::size_t state_numbers(std::size_t k, const Shape& shape) {
    if (detail::is_matrix(shape)) return static_cast<std::size_t>(shape.dims[k]);
    return k == 0 ? shape.elements() : 0;
  }
  /// How many numbers an update needs room for.
  static std::size_t scratch_numbers(const Shape& shape) {
    return detail::is_matrix(shape) ? 2 * static_cast<std::size_t>(shape.dims[1]) : 0;
  }

  /// Updates a tensor.
  static void update(const Coefficients& c, float divisor, float clip, const Shape& shape,
                     const UpdateArrays& arrays, float* scratch) {
    const std::size_t n = arrays.gradient.count;
    Moments moments{arrays.states[0].as<float>(), arrays.states[1].as<float>(),
                    reinterpret_cast<double*>(scratch)};
    moments.columns = detail::is_matrix(shape) ? static_cast<std::size_t>(shape.dims[1]) : 0;
    moments.average(c, arrays.gradient, divisor, clip);
    double squares = 0;
    detail::for_each_gradient(arrays.gradient, divisor, clip,
                              [&](std::size_t begin, float* direction, std::size_t count) {
                                moments.divide(begin, direction, count);
                                squares += square_norm(direction, count);
                              });
    const double mean_square = squares / static_cast<double>(n);
    double rate = c.rate / std::max(1.0, std::sqrt(mean_square) / c.threshold);
    if (c.scales_by_weights != 0)
      rate *= std::max(double{c.least}, root_mean_square(arrays.master));
    const detail::DirectionStep::Coefficients step{static_cast<float>(rate), c.decay};
    detail::for_each_gradient(arrays.gradient, divisor, clip,
                              [&](std::size_t begin, float* direction, std::size_t count) {
                                moments.divide(begin, direction, count);
                                detail::move_by(step, direction, arrays.part(begin, count));
                              });
  }

 private:
  /// The root of the mean square.
  static double root_mean_square(const Array& values) {
    double squares = 0;
    detail::for_each_gradient(values, 1, 1, [&](std::size_t, const float* part, std::size_t count) {
      squares += square_norm(part, count);
    });
    return std::sqrt(squares / static_cast<double>(values.count));
  }
  /// The second moment of one tensor.
  struct Moments {
    float *first, *second;    // v; or of the rows, and of the columns
    double* sums;             // [columns]
    std::size_t columns = 0;  // 0: no matrix
    double mean = 1;          // of the rows' moments

    void average(const Coefficients& c, const Array& gradient, float divisor, float clip) {
      const auto mix = [&](float& moment, double fresh) {
        moment = static_cast<float>(double{c.beta} * moment + double{c.fresh} * fresh);
      };
      if (columns == 0) {
        return detail::for_each_gradient(gradient, divisor, clip,
                                         [&](std::size_t begin, const float* g, std::size_t count) {
                                           for (std::size_t i = 0; i < count; ++i) {
                                             mix(first[begin + i], double{g[i]} * g[i] + c.epsilon);
                                           }
                                         });
      }
      const std::size_t rows = gradient.count / columns;
      double row = 0, all = 0;
      std::fill_n(sums, columns, 0.0);
      detail::for_each_gradient(gradient, divisor, clip,
                                [&](std::size_t begin, const float* g, std::size_t count) {
                                  for (std::size_t i = 0; i < count; ++i) {
                                    const std::size_t column = (begin + i) % columns;
                                    const double square = double{g[i]} * g[i] + c.epsilon;
                                    row += square;
                                    sums[column] += square;
                                    if (column + 1 != columns) continue;
                                    float& moment = first[(begin + i) / columns];
                                    mix(moment, row / static_cast<double>(columns));
                                    all += moment;
                                    row = 0;
                                  }
                                });
      for (std::size_t j = 0; j < columns; ++j) mix(second[j], sums[j] / static_cast<double>(rows));
      mean = all / static_cast<double>(rows);
    }
    /// Divides gradients by the root of their second moment.
    void divide(std::size_t begin, float* g, std::size_t count) const {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = begin + i;
        const double v =
            columns == 0 ? double{first[at]} : first[at / columns] / mean * second[at % columns];
        g[i] = static_cast<float>(g[i] / std::sqrt(v));
      }
    }
  };
};

static_assert(RangeOptimizer<Adafactor>);

}  // namespace zero
