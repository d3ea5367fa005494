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
#include <zero/optim/adafactor.hpp>

BOOST_AUTO_TEST_SUITE(adafactor_test)

using zero::Adafactor, zero::Array;
static_assert(!zero::ElementOptimizer<Adafactor>);  // so that CUDA devices refuse it

/// One tensor as algorithms 4 and 5 of the paper write it, in double; `columns` 0 is no matrix.
struct Plain {
  std::size_t rows, columns;
  std::vector<double> x, r{}, c{};

  static double rms(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum / static_cast<double>(values.size()));
  }
  void update(const Adafactor& o, int t, const std::vector<double>& g) {
    const double b = 1 - std::pow(t, -0.8);
    std::vector<double> u(g.size());
    if (columns == 0) {
      r.resize(g.size());
      for (std::size_t i = 0; i < g.size(); ++i) {
        r[i] = b * r[i] + (1 - b) * (g[i] * g[i] + 1e-30);
        u[i] = g[i] / std::sqrt(r[i]);
      }
    } else {
      r.resize(rows);
      c.resize(columns);
      double sum = 0;
      for (std::size_t i = 0; i < rows; ++i) {
        double of_row = 0;
        for (std::size_t j = 0; j < columns; ++j) of_row += std::pow(g[i * columns + j], 2) + 1e-30;
        r[i] = b * r[i] + (1 - b) * of_row / static_cast<double>(columns);
        sum += r[i];
      }
      for (std::size_t j = 0; j < columns; ++j) {
        double of_column = 0;
        for (std::size_t i = 0; i < rows; ++i) of_column += std::pow(g[i * columns + j], 2) + 1e-30;
        c[j] = b * c[j] + (1 - b) * of_column / static_cast<double>(rows);
      }
      for (std::size_t i = 0; i < g.size(); ++i) {
        const double v = r[i / columns] * c[i % columns] / (sum / static_cast<double>(rows));
        u[i] = g[i] / std::sqrt(v);
      }
    }
    const double rate = o.learning_rate.at(0),
                 factor = 1 / std::max(1.0, rms(u) / double{o.threshold});
    const double scale = o.scales_by_weights ? std::max(1e-3, rms(x)) : 1;
    for (std::size_t i = 0; i < g.size(); ++i) {
      x[i] -= rate * scale * factor * u[i] + rate * o.weight_decay.at(0) * x[i];
    }
  }
};

BOOST_AUTO_TEST_CASE(shazeer_and_stern_2018_algorithms_4_and_5) {
  const Adafactor ways[] = {{.learning_rate = 0.5F},
                            {.learning_rate = 0.25F, .threshold = 0.5F, .weight_decay = 0.5F},
                            {.learning_rate = 0.125F, .scales_by_weights = false}};
  // Larger than what is converted at once, so that a row lies across the border.
  const zero::Shape shapes[] = {{37, 53}, {3, 2}, {1500}, {40, 1}, {2, 3, 4}};
  for (const Adafactor& optimizer : ways) {
    for (const zero::Shape& shape : shapes) {
      const std::size_t n = shape.elements();
      const bool matrix = shape.rank == 2 && shape.dims[1] > 1;
      const auto rows = static_cast<std::size_t>(shape.dims[0]);
      const std::size_t columns = matrix ? n / rows : 0;
      BOOST_TEST(Adafactor::state_numbers(0, shape) == (matrix ? rows : n));
      BOOST_TEST(Adafactor::state_numbers(1, shape) == columns);
      Plain plain{rows, columns, std::vector<double>(n, 2)};
      std::vector<float> weights(n, 2), gradient(n), first(matrix ? rows : n), second(columns);
      std::vector<double> scratch(columns);
      BOOST_TEST(Adafactor::scratch_numbers(shape) * sizeof(float) ==
                 scratch.size() * sizeof(double));
      const Array states[] = {Array(first.data(), first.size()), Array(second.data(), columns)};
      for (int t = 1; t <= 10; ++t) {
        std::vector<double> g(n);
        for (std::size_t i = 0; i < n; ++i) {
          gradient[i] = static_cast<float>(std::sin(0.3 * t + static_cast<double>(i * i)));
          g[i] = gradient[i] / 4.0;
        }
        plain.update(optimizer, t, g);
        Adafactor::update(optimizer.coefficients(t, t - 1, true), 2, 0.5F, shape,
                          {.gradient = Array(gradient.data(), n),
                           .master = Array(weights.data(), n),
                           .compute = {},
                           .states = states},
                          reinterpret_cast<float*>(scratch.data()));
      }
      double worst = 0;
      for (std::size_t i = 0; i < n; ++i) {
        worst = std::max(worst, std::abs(weights[i] - plain.x[i]));
      }
      for (std::size_t i = 0; i < first.size(); ++i) {
        worst = std::max(worst, std::abs(first[i] / plain.r[i] - 1));
      }
      for (std::size_t j = 0; j < columns; ++j) {
        worst = std::max(worst, std::abs(second[j] / plain.c[j] - 1));
      }
      BOOST_TEST(worst < 2e-5, n << " elements: " << worst);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_gradient_of_zero_moves_nothing_but_by_decay) {
  const Adafactor optimizer{.learning_rate = 0.5F, .weight_decay = 0.5F};
  std::vector<float> weights(6, 4), gradient(6), rows(2), columns(3);
  std::vector<double> scratch(3);
  const Array states[] = {Array(rows.data(), 2), Array(columns.data(), 3)};
  Adafactor::update(optimizer.coefficients(1, 0, true), 1, 1, {2, 3},
                    {.gradient = Array(gradient.data(), 6),
                     .master = Array(weights.data(), 6),
                     .compute = {},
                     .states = states},
                    reinterpret_cast<float*>(scratch.data()));
  BOOST_TEST(weights == std::vector<float>(6, 3));
}

BOOST_AUTO_TEST_CASE(settings_that_make_no_sense_are_refused) {
  const auto refuses = [](const Adafactor& optimizer, const char* setting) {
    try {
      optimizer.check();
    } catch (const zero::ContractError& error) {
      return std::string(error.what()).find(setting) != std::string::npos;
    }
    return false;
  };
  Adafactor{}.check();
  BOOST_TEST(refuses({.learning_rate = -1}, "Adafactor::learning_rate"));
  BOOST_TEST(refuses({.decay_power = 0}, "Adafactor::decay_power"));
  BOOST_TEST(refuses({.epsilon = 0}, "Adafactor::epsilon"));
  BOOST_TEST(refuses({.threshold = 0}, "Adafactor::threshold"));
  BOOST_TEST(refuses({.least = 0}, "Adafactor::least"));
}

BOOST_AUTO_TEST_SUITE_END()
