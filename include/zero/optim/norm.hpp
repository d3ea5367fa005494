// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The norm of an array that lies in many pieces. May include base/.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <zero/base/element.hpp>
#include <zero/base/error.hpp>
#include <zero/base/host_device.hpp>
#include <zero/optim/square_norm.hpp>

namespace zero {

namespace detail {
template <class Number>
ZERO_HOST_DEVICE double magnitude(Number value) {
  if constexpr (std::is_same_v<Number, double>) {
    return std::fabs(value);
  } else {
    return std::fabs(static_cast<double>(to_float(value)));
  }
}
}  // namespace detail

/// The norm of order p >= 1, or infinity, of n finite numbers; 0 for n = 0. The norm of the norms
/// of parts is that of the whole.
///
/// Powers are taken relative to the largest number, so that none overflows or vanishes.
template <class Number>
ZERO_HOST_DEVICE double norm_of(double order, const Number* values, std::size_t n) {
  double largest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double value = detail::magnitude(values[i]);
    largest = value > largest ? value : largest;
  }
  if (std::isinf(order) || largest == 0) return largest;
  // To divide by a power of two is exact; for large orders its powers would overflow.
  const double scale = order < 64 ? std::exp2(static_cast<double>(std::ilogb(largest))) : largest;
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double value = detail::magnitude(values[i]) / scale;
    sum += order == 1 ? value : std::pow(value, order);
  }
  return scale * (order == 1 ? sum : std::pow(sum, 1 / order));
}

/// One rank's part of a norm, piece by piece.
class NormPart {
 public:
  /// Pre:     order >= 1, or infinity; see check_order.
  explicit NormPart(double order) : order_(order) {}

  /// Refuses an order below 1, as a ContractError.
  static void check_order(double order) {
    if (order >= 1) return;
    throw ContractError("zero::ModuleOptions: the order of the norm is " + std::to_string(order) +
                        "; pass a number from 1, or infinity");
  }

  /// Adds a piece; one that does not count is looked at for what is not finite only.
  template <class Number>
  void add(const Number* piece, std::size_t n, bool counts = true) {
    const double squares = square_norm(piece, n);
    finite_ = finite_ && std::isfinite(squares);
    if (!finite_ || !counts) return;
    if (order_ == 2) {
      part_ += squares;
    } else {
      const double both[] = {part_, norm_of(order_, piece, n)};
      part_ = norm_of(order_, both, 2);
    }
  }
  /// Of order 2 the sum of the squares, which adds over ranks; otherwise the norm of this part.
  /// Not a number if an element is not finite.
  double value() const { return finite_ ? part_ : std::numeric_limits<double>::quiet_NaN(); }

 private:
  double order_, part_ = 0;
  bool finite_ = true;
};

}  // namespace zero
