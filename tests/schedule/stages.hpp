// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The stages, shapes and programs that the tests of schedule/ and policy/ go through.
#pragma once

#include <zero/policy/make_schedule.hpp>
#include <zero/policy/stages.hpp>

#include "../share.hpp"

namespace tested {
using namespace zero;

template <std::size_t Forward, std::size_t Backward = Forward, std::size_t Keep = 1>
using Deep =
    Stage<ShardOptimizer<>, ShardGrads<>,
          ShardParams<ParamsOptions{
              .forward_prefetch = Forward, .backward_prefetch = Backward, .keep_at_turn = Keep}>>;
using KeepAll = Deep<1, 1, keep_all>;
using LastOnly = ShardGrads<GradsOptions{.every_micro_step = false}>;
using NoSync = Stage<ShardOptimizer<>, LastOnly, ShardParams<>>;
using NoSync2 = Stage<ShardOptimizer<>, LastOnly>;
using Turns = Stage<TakeTurns, Replicate, ShardOptimizer<>, ShardGrads<>, ShardParams<>>;
using TurnsHpz = Stage<TakeTurns, ReplicateParams, ShardOptimizer<>, ShardGrads<>, ShardParams<>>;

using OneSlot = Stage<ShardOptimizer<>, OffloadOptimizer<InFile, OffloadOptions{.slots = 1}>>;

// A user's policy: small units stay whole; their update is published as in ZeRO-2.
struct ResidentEnds {
  using shards = Nothing;
  static constexpr std::size_t reach = 1;
  static constexpr bool resident(const ScheduleBuilder& s, std::size_t unit) {
    return unit == 0 || s.is_last(unit);
  }
};
using Mixed = Stage<ResidentEnds, ShardOptimizer<>, ShardGrads<>, ShardParams<>>;

// A user's policy: reduces one compute late.
struct LateGrads {
  using shards = Gradients;
  static constexpr void after_backward(ScheduleBuilder& s, std::size_t unit) {
    const bool turns = s.ahead(1) == nowhere || s.ahead(1) == unit;
    for (std::size_t u = 0; u < s.units(); ++u) {
      if (u != unit || turns) s.reduce(u);
    }
  }
};
using Late = Stage<ShardOptimizer<>, LateGrads, ShardParams<>>;

template <class F>
void for_each_stage(F f) {
  f.template operator()<Ddp>("Ddp");
  f.template operator()<Zero1>("Zero1");
  f.template operator()<Zero2>("Zero2");
  f.template operator()<Zero3>("Zero3");
  f.template operator()<Hybrid>("Hybrid");
  f.template operator()<Deep<0>>("Zero3 depth 0");
  f.template operator()<Deep<2>>("Zero3 depth 2");
  f.template operator()<Deep<3, 1>>("Zero3 depth 3/1");
  f.template operator()<Deep<2, 1, 2>>("Zero3 depth 2/1 keep 2");
  f.template operator()<Deep<1, 1, 0>>("Zero3 keep 0");
  f.template operator()<KeepAll>("Zero3 keep all");
  f.template operator()<HybridOf<Ddp>>("Hybrid Ddp");
  f.template operator()<HybridOf<Zero1>>("Hybrid Zero1");
  f.template operator()<HybridOf<Zero2>>("Hybrid Zero2");
  f.template operator()<NoSync>("Zero3 no sync");
  f.template operator()<NoSync2>("Zero2 no sync");
  f.template operator()<Mixed>("Zero3 resident ends");
  f.template operator()<Late>("Zero3 late reduce");
  f.template operator()<Turns>("Hybrid taking turns");
  f.template operator()<Hpz>("Hpz");
  f.template operator()<Stage<ReplicateParams, ShardOptimizer<>>>("Zero1, optimizer over all");
  f.template operator()<Stage<ReplicateParams, ShardOptimizer<>, ShardGrads<>>>(
      "Zero2, optimizer over all");
  f.template operator()<Stage<ReplicateParams, ShardOptimizer<>, LastOnly, ShardParams<>>>(
      "Hpz no sync");
  f.template
  operator()<Stage<ResidentEnds, ReplicateParams, ShardOptimizer<>, ShardGrads<>, ShardParams<>>>(
      "Hpz resident ends");
  f.template operator()<TurnsHpz>("Hpz taking turns");
  f.template operator()<OffloadOf<Zero3>>("Zero3 offloading");
  f.template operator()<OneSlot>("Zero1 offloading through one slot");
}

/// A chain of which every other group, beginning with the first, is frozen.
constexpr ModelShape half_frozen(std::size_t units) {
  ModelShape model(units);
  for (std::size_t g = 0; g < units; g += 2) model.freeze(g);
  return model;
}
/// A chain whose units read a trainable group and a frozen one each.
constexpr ModelShape two_groups(std::size_t units) {
  ModelShape model;
  for (std::size_t u = 0; u < units; ++u) {
    const std::size_t unit = model.add_unit();
    const std::size_t base = model.add_group(1), adapter = model.add_group(0);
    model.reads(unit, base).reads(unit, adapter).freeze(base);
  }
  return model;
}

/// Units in another order than declared: the second half first, backward the other way round.
constexpr Program rotated(std::size_t units, std::size_t micro_steps) {
  Program program = training(units, micro_steps);
  for (Compute& compute : program.computes) {
    compute.unit = static_cast<Index>((compute.unit + units / 2) % units);
  }
  return program;
}
/// All forwards before all backwards, as a pipeline's first stage computes.
constexpr Program forwards_first(std::size_t units, std::size_t micro_steps) {
  Program program = training(units, micro_steps);
  program.computes.clear();
  for (std::size_t m = 0; m < micro_steps; ++m) {
    for (std::size_t u = 0; u < units; ++u) {
      program.computes.push_back({Op::forward, static_cast<Index>(u), static_cast<Index>(m)});
    }
  }
  for (std::size_t m = 0; m < micro_steps; ++m) {
    for (std::size_t u = units; u-- > 0;) {
      program.computes.push_back({Op::backward, static_cast<Index>(u), static_cast<Index>(m)});
    }
  }
  return program;
}
/// The first unit runs three times in each pass, the others once.
constexpr Program shared_weights(std::size_t units, std::size_t micro_steps) {
  Program program = training(units, micro_steps);
  zero::List<Compute> all{};
  for (const Compute& compute : program.computes) {
    for (Index i = 0; i < (compute.unit == 0 ? 3 : 1); ++i) {
      const auto use =
          static_cast<Index>(compute.op == Op::forward || compute.unit != 0 ? i : 2 - i);
      all.push_back({compute.op, compute.unit, compute.micro_step, use});
    }
  }
  program.computes = all;
  return program;
}
/// Two units take turns, each with weights that both passes of a micro-step use twice, and the
/// micro-steps overlap.
constexpr Program ping_pong(std::size_t micro_steps) {
  Program program = training(2, micro_steps);
  program.computes.clear();
  for (const Op op : {Op::forward, Op::backward}) {
    for (std::size_t m = 0; m < micro_steps; ++m) {
      for (Index i = 0; i < 4; ++i) {
        const auto at = static_cast<Index>(op == Op::forward ? i : 3 - i);
        program.computes.push_back(
            {op, static_cast<Index>(at % 2), static_cast<Index>(m), static_cast<Index>(at / 2)});
      }
    }
  }
  return program;
}
/// Training of the upper units alone: the lower half runs forward only.
constexpr Program upper_half(std::size_t units, std::size_t micro_steps) {
  Program program = training(units, micro_steps);
  zero::List<Compute> kept{};
  for (const Compute& compute : program.computes) {
    if (compute.op == Op::forward || compute.unit >= units / 2) kept.push_back(compute);
  }
  program.computes = kept;
  return program;
}

}  // namespace tested
