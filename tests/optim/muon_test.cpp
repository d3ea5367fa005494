// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/optim/muon.hpp>

BOOST_AUTO_TEST_SUITE(muon_test)

using zero::AdamW, zero::Array, zero::Muon;
using Matrix = std::vector<double>;
static_assert(!zero::ElementOptimizer<Muon>);  // so that CUDA devices refuse it

inline Matrix product(const Matrix& a, const Matrix& b, std::size_t rows, std::size_t inner,
                      std::size_t columns) {
  Matrix c(rows * columns, 0);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      for (std::size_t k = 0; k < inner; ++k) {
        c[i * columns + j] += a[i * inner + k] * b[k * columns + j];
      }
    }
  }
  return c;
}
inline Matrix transposed(const Matrix& a, std::size_t rows, std::size_t columns) {
  Matrix t(a.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) t[j * rows + i] = a[i * columns + j];
  }
  return t;
}
/// As the source writes it, in double.
inline Matrix newton_schulz_5(Matrix x, std::size_t rows, std::size_t columns) {
  if (rows > columns) {
    return transposed(newton_schulz_5(transposed(x, rows, columns), columns, rows), columns, rows);
  }
  const double a = 3.4445, b = -4.7750, c = 2.0315;
  double norm = 0;
  for (const double value : x) norm += value * value;
  for (double& value : x) value /= std::sqrt(norm) + 1e-7;
  for (int i = 0; i < 5; ++i) {
    const Matrix square = product(x, transposed(x, rows, columns), rows, columns, rows);
    Matrix mixed = product(square, square, rows, rows, rows);
    for (std::size_t k = 0; k < mixed.size(); ++k) mixed[k] = b * square[k] + c * mixed[k];
    const Matrix added = product(mixed, x, rows, rows, columns);
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = a * x[k] + added[k];
  }
  return x;
}
inline float number(std::size_t i) { return static_cast<float>(std::sin(0.7 * double(i * i + 1))); }

struct Size {
  std::size_t rows, columns;
};

BOOST_AUTO_TEST_CASE(products_of_whole_numbers_are_exact_at_all_sizes) {
  for (const std::size_t rows : {1, 3, 4, 9}) {
    for (const std::size_t inner : {1, 5, 33}) {
      for (const std::size_t columns : {1, 15, 16, 35}) {
        std::vector<float> a(rows * inner), b(inner * columns), c(rows * columns, -1);
        for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7) - 3;
        for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 5) - 2;
        zero::MatrixProduct::multiply(a.data(), b.data(), c.data(), rows, inner, columns);
        const Matrix exact =
            product(Matrix(a.begin(), a.end()), Matrix(b.begin(), b.end()), rows, inner, columns);
        BOOST_TEST(std::equal(c.begin(), c.end(), exact.begin(), exact.end()));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(jordan_et_al_2024_newton_schulz) {
  for (const auto& [rows, columns] : {Size{4, 4}, {3, 20}, {33, 6}, {24, 40}}) {
    std::vector<float> x(rows * columns), scratch(zero::orthogonal_scratch(rows, columns));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 100 * number(i);
    const Matrix expected = newton_schulz_5(Matrix(x.begin(), x.end()), rows, columns);
    zero::orthogonalize(x.data(), rows, columns, scratch.data());
    double worst = 0, squares = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      worst = std::max(worst, std::abs(x[i] - expected[i]));
      squares += double{x[i]} * x[i];
    }
    BOOST_TEST(worst < 1e-4, rows << " x " << columns << ": " << worst);
    // The sum of the squares of the singular values.
    const auto least = static_cast<double>(std::min(rows, columns));
    BOOST_TEST(squares / least > 0.4);
    BOOST_TEST(squares / least < 1.5);
  }
}

BOOST_AUTO_TEST_CASE(a_matrix_moves_by_its_orthogonal_momentum) {
  for (const bool nesterov : {true, false}) {
    const Muon optimizer{.learning_rate = 0.25F, .nesterov = nesterov, .weight_decay = 0.5F};
    constexpr std::size_t rows = 12, columns = 5, n = rows * columns;
    const zero::Shape shape{rows, columns};
    std::vector<float> weights(n, 1), gradient(n), m(n);
    std::vector<float> scratch(optimizer.scratch_numbers(shape));
    Matrix w(n, 1), momentum(n, 0), u(n);
    for (std::int64_t t = 1; t <= 4; ++t) {
      for (std::size_t i = 0; i < n; ++i) {
        gradient[i] = number(i + static_cast<std::size_t>(t));
        const double g = gradient[i] / 2.0 * 0.5;
        momentum[i] = 0.95 * momentum[i] + g;
        u[i] = nesterov ? g + 0.95 * momentum[i] : momentum[i];
      }
      const Matrix o = newton_schulz_5(u, rows, columns);
      const double scale = std::sqrt(12.0 / 5.0);
      for (std::size_t i = 0; i < n; ++i) w[i] -= 0.25 * (scale * o[i] + 0.5 * w[i]);
      const Array states[] = {Array(m.data(), n), Array()};
      Muon::update(optimizer.coefficients(t, t - 1, true), 2, 0.5F, shape,
                   {.gradient = Array(gradient.data(), n),
                    .master = Array(weights.data(), n),
                    .compute = {},
                    .states = states},
                   scratch.data());
    }
    double worst = 0;
    for (std::size_t i = 0; i < n; ++i) worst = std::max(worst, std::abs(weights[i] - w[i]));
    BOOST_TEST(worst < 1e-4);
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_matrix_and_what_a_group_says_is_updated_by_adamw) {
  const Muon by_shape{.adamw = {.learning_rate = 0.5F}};
  const Muon by_group{.matrices = false, .adamw = {.learning_rate = 0.5F}};
  BOOST_TEST(by_shape.state_numbers(1, {4, 6}) == 0U);
  BOOST_TEST(by_group.state_numbers(1, {4, 6}) == 24U);
  BOOST_TEST(by_group.scratch_numbers({4, 6}) == 0U);
  for (const zero::Shape& shape : {zero::Shape{24}, {24, 1}, {2, 3, 4}, {4, 6}}) {
    const Muon& optimizer = shape == zero::Shape{4, 6} ? by_group : by_shape;
    constexpr std::size_t n = 24;
    std::vector<float> gradient(n), weights(n, 1), m(n), v(n), expected(n, 1), m2(n), v2(n);
    for (std::size_t i = 0; i < n; ++i) gradient[i] = number(i);
    const Array states[] = {Array(m.data(), n), Array(v.data(), n)};
    float* const plain[] = {m2.data(), v2.data()};
    for (std::int64_t t = 1; t <= 3; ++t) {
      const auto c = optimizer.coefficients(t, t - 1, true);
      Muon::update(c, 3, 1, shape,
                   {.gradient = Array(gradient.data(), n),
                    .master = Array(weights.data(), n),
                    .compute = {},
                    .states = states},
                   nullptr);
      zero::update<AdamW>(c.adamw, 3, 1, gradient.data(), expected.data(),
                          static_cast<float*>(nullptr), plain, n);
    }
    BOOST_TEST(weights == expected);
    BOOST_TEST(m == m2);
    BOOST_TEST(v == v2);
  }
}

BOOST_AUTO_TEST_CASE(settings_that_make_no_sense_are_refused) {
  const auto refuses = [](const Muon& optimizer, const char* setting) {
    try {
      optimizer.check();
    } catch (const zero::ContractError& error) {
      return std::string(error.what()).find(setting) != std::string::npos;
    }
    return false;
  };
  Muon{}.check();
  BOOST_TEST(refuses({.learning_rate = -1}, "Muon::learning_rate"));
  BOOST_TEST(refuses({.momentum = 1}, "Muon::momentum"));
  BOOST_TEST(refuses({.weight_decay = -1}, "Muon::weight_decay"));
  BOOST_TEST(refuses({.adamw = {.beta1 = 1}}, "AdamW::beta1"));
}

BOOST_AUTO_TEST_SUITE_END()
