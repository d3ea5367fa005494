// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Program: in which order units compute. Includes schedule/ only.
#pragma once

#include <zero/base/list.hpp>
#include <zero/schedule/shape_error.hpp>
#include <zero/schedule/step.hpp>

namespace zero {

/// One line of a program. Where a unit computes more than once in a micro-step, since layers share
/// its weights, `use` numbers its runs from 0: each has activations of its own. The same forward
/// again is its recomputation.
struct Compute {
  Op op = Op::none;                         // forward or backward
  Index unit = 0, micro_step = 0, use = 0;  // which run of which unit
  friend constexpr bool operator==(const Compute&, const Compute&) = default;
};

/// The order of computing, which the user's loop fixes and a schedule must follow.
struct Program {
  List<Compute> computes{};     // in their order
  std::size_t micro_steps = 1;  // how many there are
  bool updates = false;         // whether the parameters are updated at the end
};

/// Makes `program` the usual training step: in each micro-step all units forward, then all
/// backward.
///
/// Allocates: only if `program` never held as many computes.
/// Errors:    ShapeError if an index needs more than 16 bits.
constexpr void fill_training(Program& program, std::size_t units, std::size_t micro_steps) {
  if (units >= nowhere) throw ShapeError("zero: a program has at most 65534 units; join some");
  if (micro_steps >= nowhere)
    throw ShapeError("zero: a program has at most 65534 micro-steps; begin more steps");
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
/// Makes `program` a training step that recomputes activations: backward takes `segment` units at a
/// time, the last ones of the model first, and runs those of each segment forward again before it,
/// except those that have just run.
///
/// Moves:   ShardParams gathers a unit once for each of its computes, but for those that follow
///          directly on another one of the same unit, or sooner than keep_at_turn says. With
///          keep_at_turn = segment that is twice a unit, as without recomputation.
/// Errors:  as fill_training; ShapeError if `segment` is 0.
/// Source:  Chen et al., Training deep nets with sublinear memory cost, 2016, section 4.
constexpr void fill_recomputing(Program& program, std::size_t units, std::size_t micro_steps,
                                std::size_t segment) {
  if (segment == 0)
    throw ShapeError("zero: recomputing: a segment has no units; give it at least one");
  fill_training(program, units, micro_steps);  // checks the counts
  program.computes.clear();
  program.computes.reserve(3 * units * micro_steps);
  for (std::size_t m = 0; m < micro_steps; ++m) {
    const auto add = [&](Op op, std::size_t unit) {
      program.computes.push_back({op, static_cast<Index>(unit), static_cast<Index>(m)});
    };
    for (std::size_t u = 0; u < units; ++u) add(Op::forward, u);
    for (std::size_t end = units, begin = 0; end > 0; end = begin) {
      begin = (end - 1) / segment * segment;
      for (std::size_t u = begin; u < end && end != units; ++u) add(Op::forward, u);
      for (std::size_t u = end; u-- > begin;) add(Op::backward, u);
    }
  }
}
/// Makes `program` one forward pass that changes nothing.
constexpr void fill_evaluation(Program& program, std::size_t units) {
  if (units >= nowhere) throw ShapeError("zero: a program has at most 65534 units; join some");
  program.micro_steps = 1;
  program.updates = false;
  program.computes.clear();
  program.computes.reserve(units);
  for (std::size_t u = 0; u < units; ++u) {
    program.computes.push_back({Op::forward, static_cast<Index>(u), 0});
  }
}
/// The usual order: units forward, then backward, in each micro-step.
constexpr Program training(std::size_t units, std::size_t micro_steps = 1) {
  Program program;
  fill_training(program, units, micro_steps);
  return program;
}
/// The same with forwards that run again, segment by segment.
constexpr Program recomputing(std::size_t units, std::size_t micro_steps, std::size_t segment) {
  Program program;
  fill_recomputing(program, units, micro_steps, segment);
  return program;
}
/// All units forward, once.
constexpr Program evaluation(std::size_t units) {
  Program program;
  fill_evaluation(program, units);
  return program;
}

/// One more than the largest use of a unit in a micro-step.
constexpr std::size_t uses(const Program& program) {
  std::size_t most = 1;
  for (const Compute& compute : program.computes) {
    if (most <= compute.use) most = compute.use + std::size_t{1};
  }
  return most;
}

}  // namespace zero
