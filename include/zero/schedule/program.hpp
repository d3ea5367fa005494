// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Program: in which order units compute. Includes schedule/ only.
#pragma once

#include <vector>
#include <zero/schedule/shape_error.hpp>
#include <zero/schedule/step.hpp>

namespace zero {

struct Compute {
  Op op = Op::none;
  Index unit = 0, micro_step = 0;
  friend constexpr bool operator==(const Compute&, const Compute&) = default;
};

/// The order of computing, which the user's loop fixes and a schedule must follow.
struct Program {
  std::vector<Compute> computes{};
  std::size_t micro_steps = 1;
  bool updates = false;  // whether the parameters are updated at the end
};

/// Makes `program` the usual training step: in each micro-step all units forward, then all
/// backward.
///
/// Allocates: only if `program` never held as many computes.
/// Errors:    ShapeError if an index needs more than 16 bits.
constexpr void fill_training(Program& program, std::size_t units, std::size_t micro_steps) {
  if (units >= nowhere) throw ShapeError("zero: a program has at most 65534 units");
  if (micro_steps >= nowhere) throw ShapeError("zero: a program has at most 65534 micro-steps");
  program.micro_steps = micro_steps;
  program.updates = true;
  program.computes.clear();
  program.computes.reserve(2 * units * micro_steps);
  for (std::size_t m = 0; m < micro_steps; ++m) {
    const auto micro_step = static_cast<Index>(m);
    for (std::size_t u = 0; u < units; ++u) {
      program.computes.push_back({Op::forward, static_cast<Index>(u), micro_step});
    }
    for (std::size_t u = units; u-- > 0;) {
      program.computes.push_back({Op::backward, static_cast<Index>(u), micro_step});
    }
  }
}
/// Makes `program` one forward pass that changes nothing.
constexpr void fill_evaluation(Program& program, std::size_t units) {
  if (units >= nowhere) throw ShapeError("zero: a program has at most 65534 units");
  program.micro_steps = 1;
  program.updates = false;
  program.computes.clear();
  program.computes.reserve(units);
  for (std::size_t u = 0; u < units; ++u) {
    program.computes.push_back({Op::forward, static_cast<Index>(u), 0});
  }
}
constexpr Program training(std::size_t units, std::size_t micro_steps = 1) {
  Program program;
  fill_training(program, units, micro_steps);
  return program;
}
constexpr Program evaluation(std::size_t units) {
  Program program;
  fill_evaluation(program, units);
  return program;
}

}  // namespace zero
