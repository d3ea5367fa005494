// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Mistakes in policies and stages.
#include <zero/policy/proof.hpp>

#ifndef WRONG
#define WRONG 0
#endif
using namespace zero;

// A policy of a user that is right: gathers on demand, releases at once.
struct OnDemand {
  using shards = Parameters;
  static constexpr void before_forward(ScheduleBuilder& s, std::size_t unit) { s.gather(unit); }
  static constexpr void after_forward(ScheduleBuilder& s, std::size_t unit) { s.release(unit); }
  static constexpr void before_backward(ScheduleBuilder& s, std::size_t unit) { s.gather(unit); }
  static constexpr void after_backward(ScheduleBuilder& s, std::size_t unit) { s.release(unit); }
};

#if WRONG == 0
using Tried = Stage<ShardOptimizer<>, ShardGrads<>, OnDemand>;
#endif

// The name of a hook is misspelt, so that nothing is gathered before the forward.
#if WRONG == 1  // expect: zero: rule R1: this stage computes a unit whose parameters are not whole
struct Misspelt {
  using shards = Parameters;
  static constexpr void before_foward(ScheduleBuilder& s, std::size_t unit) { s.gather(unit); }
  static constexpr void after_backward(ScheduleBuilder& s, std::size_t unit) { s.release(unit); }
};
using Tried = Stage<ShardOptimizer<>, ShardGrads<>, Misspelt>;
#endif

// A unit is released after its forward and not gathered again for its backward.
#if WRONG == 2  // expect: zero: rule R1: this stage computes a unit whose parameters are not whole
struct EarlyRelease {
  using shards = Parameters;
  static constexpr void before_forward(ScheduleBuilder& s, std::size_t unit) { s.gather(unit); }
  static constexpr void after_forward(ScheduleBuilder& s, std::size_t unit) { s.release(unit); }
};
using Tried = Stage<ShardOptimizer<>, ShardGrads<>, EarlyRelease>;
#endif

// Right for up to three units; the proof tries more.
#if WRONG == 3  // expect: zero: rule R1: this stage computes a unit whose parameters are not whole
struct FourthForgotten : OnDemand {
  static constexpr void before_forward(ScheduleBuilder& s, std::size_t unit) {
    if (unit != 3) s.gather(unit);
  }
};
using Tried = Stage<ShardOptimizer<>, ShardGrads<>, FourthForgotten>;
#endif

// What is gathered stays whole when the step ends.
#if WRONG == 4  // expect: zero: rule R2: this stage does not balance gather and release
struct NoRelease {
  using shards = Parameters;
  static constexpr void before_forward(ScheduleBuilder& s, std::size_t unit) { s.gather(unit); }
};
using Tried = Stage<ShardOptimizer<>, ShardGrads<>, NoRelease>;
#endif

// Each rank updates its part of the parameters in place, and nobody gathers them.
#if WRONG == 5  // expect: zero: rule R2: this stage does not balance gather and release
struct NoPublish {
  using shards = OptimizerState;
};
using Tried = Stage<NoPublish>;
#endif

// Right in training; in an evaluation there is no backward after which to release.
#if WRONG == 6  // expect: zero: rule R2: this stage does not balance gather and release
struct ForTraining {
  using shards = Parameters;
  static constexpr void before_forward(ScheduleBuilder& s, std::size_t unit) { s.gather(unit); }
  static constexpr void after_backward(ScheduleBuilder& s, std::size_t unit) { s.release(unit); }
};
using Tried = Stage<ShardOptimizer<>, ShardGrads<>, ForTraining>;
#endif

// The gradients are said to be sharded, but nobody reduces them.
#if WRONG == 7  // expect: zero: rule R3: this stage does not reduce each gradient exactly once
struct NoReduce {
  using shards = Gradients;
};
using Tried = Stage<ShardOptimizer<>, NoReduce>;
#endif

// The gradient is reduced before the backward that adds to it.
#if WRONG == 8  // expect: zero: rule R3: this stage does not reduce each gradient exactly once
struct EarlyReduce {
  using shards = Gradients;
  static constexpr void before_backward(ScheduleBuilder& s, std::size_t unit) { s.reduce(unit); }
};
using Tried = Stage<ShardOptimizer<>, EarlyReduce>;
#endif

// Right for one micro-step, but the gradients of later ones are lost.
#if WRONG == 9  // expect: zero: rule R3: this stage does not reduce each gradient exactly once
struct FirstOnly {
  using shards = Gradients;
  static constexpr void after_backward(ScheduleBuilder& s, std::size_t unit) {
    if (s.micro_step() == 0) s.reduce(unit);
  }
};
using Tried = Stage<ShardOptimizer<>, FirstOnly>;
#endif

// Replicate stands last, so that replicas are summed before the shards are reduced.
#if WRONG == 10  // expect: zero: rule R3: this stage does not reduce each gradient exactly once
using Tried = Stage<ShardOptimizer<>, ShardGrads<>, Replicate>;
#endif

// There are replicas, but nobody sums their gradients.
#if WRONG == 11  // expect: zero: rule R4: this stage does not update each group exactly once
struct Forgetful {
  using shards = Nothing;
  static constexpr bool replicates = true;
};
using Tried = Stage<Forgetful, ShardOptimizer<>, ShardGrads<>>;
#endif

// Three units are gathered ahead into two slots.
#if WRONG == 12  // expect: zero: rule R7: this stage needs more slots than it declares
using Tried = Stage<ShardOptimizer<>, ShardGrads<>,
                    ShardParams<ParamsOptions{.forward_prefetch = 3, .slots = 2}>>;
#endif

#if WRONG == 13  // expect: zero::Stage: ShardGrads needs ShardOptimizer
using Tried = Stage<ShardGrads<>>;
#endif

#if WRONG == 14  // expect: zero::Stage: ShardParams needs ShardGrads
using Tried = Stage<ShardOptimizer<>, ShardParams<>>;
#endif

#if WRONG == 20  // expect: zero::Stage: ReplicateParams shards the optimizer state
using Tried = Stage<ReplicateParams>;
#endif

#if WRONG == 15  // expect: zero::Stage: two policies shard the same thing
using Tried = Stage<ShardOptimizer<>, ShardOptimizer<>>;
#endif

#if WRONG == 16  // expect: zero::Stage: each argument must be a policy
using Tried = Stage<ShardOptimizer<>, int>;
#endif

// The question takes a builder that may be changed, so that nobody can ask it.
#if WRONG == 17  // expect: zero::Stage: a hook of a policy cannot be called
struct WithoutConst {
  using shards = Nothing;
  static constexpr bool resident(ScheduleBuilder& s, std::size_t unit) { return s.is_last(unit); }
};
using Tried = Stage<WithoutConst, ShardOptimizer<>, ShardGrads<>, ShardParams<>>;
#endif

#if WRONG == 18  // expect: zero::Stage: a hook of a policy cannot be called
struct NotStatic {
  using shards = Gradients;
  constexpr void after_backward(ScheduleBuilder& s, std::size_t unit) { s.reduce(unit); }
};
using Tried = Stage<ShardOptimizer<>, NotStatic>;
#endif

#if WRONG == 19  // expect: zero::Stage: a policy that shards zero::Nothing has no hook
struct MisspeltQuestion {
  using shards = Nothing;
  static constexpr bool is_resident(const ScheduleBuilder&, std::size_t) { return true; }
};
using Tried = Stage<MisspeltQuestion, ShardOptimizer<>, ShardGrads<>, ShardParams<>>;
#endif

// The question about tensors is asked of a number of elements, as if it were whole_below.
#if WRONG == 21  // expect: zero::Stage: a hook of a policy cannot be called
struct WrongQuestion {
  using shards = Nothing;
  static constexpr bool stays_whole(std::size_t elements) { return elements < 100; }
};
using Tried = Stage<WrongQuestion, ShardOptimizer<>, ShardGrads<>, ShardParams<>>;
#endif

static_assert(proven<Tried>);
