// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The named stages. Includes policy/ only.
#pragma once

#include <zero/policy/keep_whole.hpp>
#include <zero/policy/offload_optimizer.hpp>
#include <zero/policy/replicate.hpp>
#include <zero/policy/shard_grads.hpp>
#include <zero/policy/shard_optimizer.hpp>
#include <zero/policy/shard_params.hpp>
#include <zero/policy/stage.hpp>
#include <zero/policy/take_turns.hpp>

namespace zero {

using Ddp = Stage<>;                                  // nothing is sharded
using Zero1 = Stage<ShardOptimizer<>>;                // the optimizer state is sharded
using Zero2 = Stage<ShardOptimizer<>, ShardGrads<>>;  // and gradients
using Zero3 = Stage<ShardOptimizer<>, ShardGrads<>, ShardParams<>>;  // and parameters

namespace detail {
template <class StageType, class Policy>
struct With;
template <class... Policies, class Policy>
struct With<Stage<Policies...>, Policy> {
  using type = Stage<Policies..., Policy>;
};
template <class StageType>
struct Hybrid;
template <class... Policies>
struct Hybrid<Stage<Policies...>> {
  using type = Stage<Replicate, Policies...>;
};
}  // namespace detail

/// A stage within groups of ranks that hold replicas of each other.
template <class StageType>
using HybridOf = typename detail::Hybrid<StageType>::type;
/// ZeRO-3 within such groups.
using Hybrid = HybridOf<Zero3>;
/// A stage that keeps its optimizer state in a file, or InHostMemory.
template <class StageType, class Where = InFile>
using OffloadOf = typename detail::With<StageType, OffloadOptimizer<Where>>::type;
/// ZeRO-3 whose units are gathered within groups of ranks, and whose optimizer state is sharded
/// over all ranks. Source:  Wang et al., ZeRO++, 2023, section 3.2 (hpZ).
using Hpz = Stage<ReplicateParams, ShardOptimizer<>, ShardGrads<>, ShardParams<>>;

}  // namespace zero
