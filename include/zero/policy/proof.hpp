// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// proven: a stage obeys the rules, shown at compile time. Includes schedule/ and policy/ only.
#pragma once

#include <utility>
#include <zero/policy/make_schedule.hpp>
#include <zero/policy/stages.hpp>
#include <zero/schedule/verify.hpp>

namespace zero {

/// What is wrong with a stage: its policies do not fit, or it breaks a rule on a model, of which
/// this is the smallest. A compiler prints it with the error. No micro-steps stand for evaluation.
struct Counterexample {
  Misfit misfit = Misfit::none;            // how policies do not fit
  std::size_t units = 0, micro_steps = 0;  // of the smallest model
  Finding finding{};                       // the rule and the step
};

/// What the rules say of a stage on a chain of `Units` units.
template <class StageType, std::size_t Units, std::size_t MicroSteps = 1>
inline constexpr Finding finding = [] {
  const Program program = MicroSteps == 0 ? evaluation(Units) : training(Units, MicroSteps);
  // Where sizes decide what stays whole: nothing, every other group, the others. Where tensors do:
  // a second group of each unit.
  constexpr WholeRule whole = StageType::whole();
  Finding found{};
  for (std::size_t kept = 0; kept < 4; ++kept) {
    if (kept == 3 ? !whole.asks : kept != 0 && whole.smaller_than == 0) continue;
    ModelShape model(Units);
    for (std::size_t g = kept - 1; kept % 3 != 0 && g < Units; g += 2) model.keep_whole(g);
    for (std::size_t u = 0; kept == 3 && u < Units; ++u) {
      const std::size_t g = model.add_group(1);
      model.reads(u, g).keep_whole(g);
    }
    // Statements: nvcc 13 does not end the life of temporaries in an initializer.
    const Schedule made = make_schedule<StageType>(model, program);
    found = verify(made);
    if (found.rule != Rule::none) break;
  }
  return found;
}();

namespace detail {
template <class StageType, std::size_t Programs, std::size_t... I>
consteval Counterexample first_counterexample(std::index_sequence<I...>) {
  Counterexample first{};
  (void)((first = {Misfit::none, I / Programs + 1, I % Programs,
                   finding<StageType, I / Programs + 1, I % Programs>},
          first.finding.rule == Rule::none) &&
         ...);
  return first.finding.rule == Rule::none ? Counterexample{} : first;
}
template <class StageType, std::size_t Units, std::size_t MicroSteps>
consteval Counterexample counterexample() {
  constexpr Misfit misfit = misfit_of<StageType>;
  if constexpr (misfit != Misfit::none) {
    return {misfit};
  } else {
    constexpr std::size_t programs = MicroSteps + 1;  // evaluation, then training
    return first_counterexample<StageType, programs>(std::make_index_sequence<Units * programs>{});
  }
}

/// Stops the build with one sentence if there is a counterexample. The sentences stand in a
/// function: after a failed assertion, clang 14 goes on in a function without further errors, but
/// not in a class.
template <class StageType, Counterexample example>
consteval bool holds() {
  constexpr Misfit m = example.misfit;
  static_assert(m != Misfit::no_policy,
                "zero::Stage: each argument must be a policy; give it a member type 'shards', such "
                "as zero::Nothing.");
  static_assert(
      m != Misfit::bad_hook,
      "zero::Stage: a hook of a policy cannot be called; make it static constexpr void "
      "(ScheduleBuilder&, std::size_t unit), resident bool (const ScheduleBuilder&, std::size_t "
      "unit), and stays_whole bool (const TensorFacts&).");
  static_assert(m != Misfit::no_effect,
                "zero::Stage: a policy that shards zero::Nothing has no hook; check the names of "
                "its hooks, or remove it.");
  static_assert(m != Misfit::twice,
                "zero::Stage: two policies shard the same thing; remove one of them.");
  static_assert(m != Misfit::params_alone,
                "zero::Stage: ShardParams needs ShardGrads, because whole gradients are as large "
                "as what it saves; add ShardGrads<>.");
  static_assert(m != Misfit::grads_alone,
                "zero::Stage: ShardGrads needs ShardOptimizer, because a rank can update only what "
                "it has gradients for; add ShardOptimizer<>.");
  static_assert(m != Misfit::replicas_alone,
                "zero::Stage: ReplicateParams shards the optimizer state over the replicas too; "
                "add ShardOptimizer<>, or use Replicate.");
  constexpr Rule rule = example.finding.rule;
  static_assert(rule != Rule::whole,
                "zero: rule R1: this stage computes a unit whose parameters are not whole and "
                "current; gather them before it, and update them after it.");
  static_assert(rule != Rule::balanced,
                "zero: rule R2: this stage does not balance gather and release; release each unit "
                "that it gathers, once, before the step ends; publish what it updates in place.");
  static_assert(rule != Rule::reduced_once,
                "zero: rule R3: this stage does not reduce each gradient exactly once per window, "
                "after its last backward; call reduce(unit) in after_backward, inside Replicate.");
  static_assert(rule != Rule::updated_once,
                "zero: rule R4: this stage does not update each group exactly once from its "
                "complete gradient; reduce it, and reduce it across replicas, before.");
  static_assert(
      rule != Rule::no_race,
      "zero: rule R5: two steps of this stage touch the same buffer and no wait orders "
      "them; gather, reduce and release by the builder's verbs only, which add the waits.");
  static_assert(rule != Rule::lifetime,
                "zero: rule R6: this stage uses a slot before its gather is complete or after its "
                "release; gather the unit before it computes, and release it after.");
  static_assert(rule != Rule::bound,
                "zero: rule R7: this stage needs more slots than it declares; raise 'slots' or "
                "prefetch less.");
  static_assert(rule != Rule::order,
                "zero: rule R8: this stage computes out of the order of the program, or backward "
                "without the activations of its micro-step; leave computes to the builder.");
  static_assert(rule != Rule::waits,
                "zero: rule R9: a wait of this stage names no earlier step that signals; leave "
                "waits to the builder.");
  static_assert(rule != Rule::boundary,
                "zero: rule R10: the end of one training step and the begin of the next touch the "
                "same buffer and no wait orders them; leave waits to the builder.");
  return true;
}

}  // namespace detail

/// Units enough to see a first, a last and a middle unit: what happens to a unit depends on its
/// distance from either end only within as many units as there are slots, and as a policy says
/// (periodic_test.cpp).
template <class StageType>
inline constexpr std::size_t units_to_prove = [] {
  std::size_t end = 2;
  if constexpr (detail::misfit_of<StageType> == Misfit::none) {
    constexpr Slots pools[] = {StageType::template slots<Parameters>(),
                               StageType::template slots<Gradients>()};
    for (const Slots& pool : pools) {
      if (end < pool.count) end = pool.count;
    }
    end += StageType::reach();
  }
  return 2 * end + 1;
}();

/// True if a stage obeys all rules for 1 to MaxUnits units, in evaluation and in training with 1 to
/// MaxMicroSteps micro-steps; otherwise the build stops with the sentence of the rule that the
/// smallest counterexample breaks. For the shape that a program has, verify() is called when it
/// starts.
template <class StageType, std::size_t MaxUnits = units_to_prove<StageType>,
          std::size_t MaxMicroSteps = 2>
inline constexpr bool proven =
    detail::holds<StageType, detail::counterexample<StageType, MaxUnits, MaxMicroSteps>()>();

}  // namespace zero
