// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Rule: the rules R1 to R10 that every schedule obeys. Includes schedule/ only.
#pragma once

#include <zero/schedule/step.hpp>

namespace zero {

/// R1  Units compute only with the whole, current parameters of every group that they read.
/// R2  Gathers fill free slots, what is gathered is released, and an execution ends as it began. So
///     it is with optimizer state that is fetched, updated and stored.
/// R3  Each gradient is reduced once per window, after the window's last backward.
/// R4  Each group with a gradient is updated once, from its complete reduced gradient, after the
///     norm of all gradients is known and agreed.
/// R5  No two conflicting accesses are unordered.
/// R6  No slot is used before its gather is complete or after its release.
/// R7  No step uses a slot beyond the declared ones.
/// R8  Units compute in the order of the program; each backward reads the activations that the
///     latest forward of its unit, micro-step and use wrote.
/// R9  Waits name earlier steps that signal, and collectives that must take turns do, so that every
///     order of streams makes progress.
/// R10 R5 and R6 hold across the boundary between two executions.
enum class Rule : std::uint8_t {
  none,
  whole,
  balanced,
  reduced_once,
  updated_once,
  no_race,
  lifetime,
  bound,
  order,
  waits,
  boundary,
};

/// The first rule that a schedule breaks, and where. `other` is the second step of a race.
struct Finding {
  Rule rule = Rule::none;             // the one that is broken
  std::uint32_t step = 0, other = 0;  // numbers of steps
  Index subject = 0;                  // the unit or group that it is about
  friend constexpr bool operator==(const Finding&, const Finding&) = default;
};

/// What is wrong if `rule` is broken, as one sentence without its end.
constexpr const char* sentence(Rule rule) {
  switch (rule) {
    case Rule::none: return "all rules are obeyed";
    case Rule::whole:
      return "rule R1: a unit computes while its parameters are not whole and current";
    case Rule::balanced: return "rule R2: gather and release are not balanced";
    case Rule::reduced_once:
      return "rule R3: a gradient is not reduced exactly once after its last backward";
    case Rule::updated_once:
      return "rule R4: a group is not updated exactly once from its complete, agreed gradient";
    case Rule::no_race: return "rule R5: two steps touch the same buffer and no wait orders them";
    case Rule::lifetime:
      return "rule R6: a slot is used before its gather is complete or after its release";
    case Rule::bound: return "rule R7: a step uses a slot beyond the declared ones";
    case Rule::order:
      return "rule R8: a unit computes out of the order of the program, or backward without its "
             "activations";
    case Rule::waits: return "rule R9: a wait names no step that signals, or a turn is not taken";
    case Rule::boundary:
      return "rule R10: the end of one step and the begin of the next touch the same buffer and no "
             "wait orders them";
  }
  return "unknown rule";
}

}  // namespace zero
