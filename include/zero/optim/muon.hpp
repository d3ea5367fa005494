// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Muon. May include base/ and layout/.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <zero/layout/tensor.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/detail/direction.hpp>
#include <zero/optim/detail/settings.hpp>
#include <zero/optim/matrix_product.hpp>
#include <zero/optim/optimizer.hpp>
#include <zero/optim/scheduled.hpp>
#include <zero/optim/square_norm.hpp>
#include <zero/optim/update.hpp>

namespace zero {

/// Moves a matrix to the nearest one whose singular values are all about 1, by five Newton-Schulz
/// iterations:
///
///   X <- X / |X|,  then five times  A = X X^T,  X <- a X + (b A + c A A) X
///
/// Shape:   x [rows * columns], row by row, is replaced; scratch [orthogonal_scratch(rows,
///          columns)].
/// Source:  Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024: the
///          polynomial and the number of iterations.
constexpr std::size_t orthogonal_scratch(std::size_t rows, std::size_t columns) {
  const std::size_t least = std::min(rows, columns);
  return 2 * rows * columns + 2 * least * least;
}
/// Makes the singular values of x nearly 1.
template <class Product = MatrixProduct>
void orthogonalize(float* x, std::size_t rows, std::size_t columns, float* scratch) {
  constexpr float a = 3.4445F, b = -4.7750F, c = 2.0315F;
  // The shorter side is that of A.
  const bool turned = rows > columns;
  const std::size_t m = turned ? columns : rows, n = turned ? rows : columns;
  const auto transpose = [](const float* from, float* to, std::size_t height, std::size_t width) {
    for (std::size_t i = 0; i < height; ++i) {
      for (std::size_t j = 0; j < width; ++j) to[j * height + i] = from[i * width + j];
    }
  };
  float *now = scratch, *next = now + m * n, *square = next + m * n, *mixed = square + m * m;
  const auto norm = static_cast<float>(std::sqrt(square_norm(x, m * n)));
  turned ? transpose(x, now, rows, columns) : void(std::copy_n(x, m * n, now));
  for (std::size_t i = 0; i < m * n; ++i) now[i] /= norm + 1e-7F;
  for (int iteration = 0; iteration < 5; ++iteration) {
    transpose(now, next, m, n);
    Product::multiply(now, next, square, m, n, m);
    Product::multiply(square, square, mixed, m, m, m);
    for (std::size_t i = 0; i < m * m; ++i) mixed[i] = b * square[i] + c * mixed[i];
    Product::multiply(mixed, now, next, m, m, n);
    for (std::size_t i = 0; i < m * n; ++i) next[i] += a * now[i];
    std::swap(now, next);
  }
  turned ? transpose(now, x, m, n) : void(std::copy_n(now, m * n, x));
}

/// Momentum of a whole matrix, made orthogonal:
///
///   m <- momentum m + g               u = g + momentum m  (m alone without nesterov)
///   w <- w - rate (sqrt(max(1, rows / columns)) orthogonal(u) + decay w)
///
/// Each tensor lies whole on one rank, its owner; the layout cuts between tensors. A tensor that is
/// no matrix (two dimensions, each above 1), and those of a group with .matrices = false, which is
/// usual for embeddings and heads, are updated by `adamw`:
///
///   zero::groups(zero::Muon{}, {{"embed.*", zero::Muon{.matrices = false}}})
///
/// A matrix keeps one number an element, other tensors two. `Product` multiplies matrices as
/// MatrixProduct does; give one that calls a BLAS to go faster.
///
/// Pre:     0 <= momentum < 1.
/// Source:  Jordan et al., Muon: An optimizer for hidden layers in neural networks, 2024; decay as
///          in Liu et al., Muon is scalable for LLM training, 2025, section 2.2.
template <class Product = MatrixProduct>
struct BasicMuon {
  Scheduled learning_rate = 0.02F;  // a number, or a function of the step
  float momentum = 0.95F;           // of gradients
  bool nesterov = true;             // whether the update looks ahead
  Scheduled weight_decay = 0;       // decoupled; of tensors that decay
  bool matrices = true;             // whether matrices are updated so; others are by adamw
  AdamW adamw{};                    // of what is no matrix

  static constexpr std::size_t states = 2;  // of a matrix m; of others those of AdamW
  /// Its elements depend on each other within a tensor.
  static constexpr std::size_t block = whole_tensor;

  /// The numbers of one update.
  struct Coefficients {
    AdamW::Coefficients adamw;    // of what is no matrix
    float rate, decay, momentum;  // decay = rate * weight_decay
    float own, ahead;             // the parts of g and m in u
    float matrices;               // 0 or 1
  };

  /// Refuses settings that make no sense, as a ContractError.
  void check() const {
    detail::check_scheduled("Muon::learning_rate", learning_rate);
    detail::check_share("Muon::momentum", momentum);
    detail::check_scheduled("Muon::weight_decay", weight_decay);
    adamw.check();
  }
  /// The numbers of one update.
  Coefficients coefficients(std::int64_t counter, std::int64_t step, bool decay) const {
    const double rate = learning_rate.at(step);
    return {.adamw = adamw.coefficients(counter, step, decay),
            .rate = static_cast<float>(rate),
            .decay = decay ? static_cast<float>(rate * weight_decay.at(step)) : 0.0F,
            .momentum = momentum,
            .own = nesterov ? 1.0F : 0.0F,
            .ahead = nesterov ? momentum : 1.0F,
            .matrices = matrices ? 1.0F : 0.0F};
  }

  /// How many numbers state k of a tensor has.
  std::size_t state_numbers(std::size_t k, const Shape& shape) const {
    return k == 1 && matrices && detail::is_matrix(shape) ? 0 : shape.elements();
  }
  /// How many numbers an update needs room for.
  std::size_t scratch_numbers(const Shape& shape) const {
    if (!matrices || !detail::is_matrix(shape)) return 0;
    return shape.elements() + orthogonal_scratch(static_cast<std::size_t>(shape.dims[0]),
                                                 static_cast<std::size_t>(shape.dims[1]));
  }

  /// Updates a tensor.
  static void update(const Coefficients& c, float divisor, float clip, const Shape& shape,
                     const UpdateArrays& arrays, float* scratch) {
    if (c.matrices == 0 || !detail::is_matrix(shape)) {
      return zero::update<AdamW>(c.adamw, divisor, clip, arrays);
    }
    const auto rows = static_cast<std::size_t>(shape.dims[0]);
    const auto columns = static_cast<std::size_t>(shape.dims[1]);
    float* const m = arrays.states[0].as<float>();
    const auto add = [&](std::size_t begin, const float* gradient, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) {
        float& mean = m[begin + i];
        mean = c.momentum * mean + gradient[i];
        scratch[begin + i] = c.own * gradient[i] + c.ahead * mean;
      }
    };
    detail::for_each_gradient(arrays.gradient, divisor, clip, add);
    orthogonalize<Product>(scratch, rows, columns, scratch + rows * columns);
    const double ratio = static_cast<double>(rows) / static_cast<double>(columns);
    const auto scale = static_cast<float>(std::sqrt(std::max(1.0, ratio)));
    detail::move_by({c.rate * scale, c.decay}, scratch, arrays);
  }
};

using Muon = BasicMuon<>;  // with the products of this library

static_assert(RangeOptimizer<Muon>);

}  // namespace zero
