// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Five policies as a user writes them, outside the library; docs/policies.md explains each.
#pragma once
#include <cstddef>
#include <zero/policy/proof.hpp>

namespace policies {

/// The last unit is never sharded: it turns the pass round, and is waited for twice.
struct KeepLast {
  using shards = zero::Nothing;
  static constexpr std::size_t reach = 1;  // one unit at an end is treated in a way of its own
  static constexpr bool resident(const zero::ScheduleBuilder& s, std::size_t unit) {
    return s.is_last(unit);
  }
};

/// Units with fewer elements are never sharded: a collective costs its latency whatever it moves.
template <std::size_t Elements>
struct ShardFrom {
  using shards = zero::Nothing;
  static constexpr std::size_t whole_below = Elements;
};

/// Forward gathers just in time; backward, whose computing is longer, gathers two units ahead.
struct TwoAheadInBackward {
  using shards = zero::Parameters;
  static constexpr zero::Slots slots{3, true};  // units that may be whole at once, to begin with
  static constexpr void before_forward(zero::ScheduleBuilder& s, std::size_t u) { s.gather(u); }
  static constexpr void after_forward(zero::ScheduleBuilder& s, std::size_t u) { leave(s, u); }
  static constexpr void before_backward(zero::ScheduleBuilder& s, std::size_t) {
    for (std::size_t k = 0; k <= 2; ++k) s.gather(s.ahead(k));
  }
  static constexpr void after_backward(zero::ScheduleBuilder& s, std::size_t u) { leave(s, u); }
  static constexpr void leave(zero::ScheduleBuilder& s, std::size_t u) {
    if (s.next_use(u) != 1) s.release(u);  // the unit that turns stays
  }
};

/// Norms and biases, which are vectors, are whole on every rank; matrices are sharded.
struct ReplicateVectors {
  using shards = zero::Nothing;
  static constexpr bool stays_whole(const zero::TensorFacts& tensor) { return tensor.rank <= 1; }
};

/// What a step updates is gathered when the next one first needs it, and is whole until its last
/// use: as little is sent as by Zero2, beside the computing of the forward.
struct PublishLazily {
  using shards = zero::Parameters;
  static constexpr zero::Slots slots{2, true};
  static constexpr void before_forward(zero::ScheduleBuilder& s, std::size_t u) {
    s.gather(u);
    s.gather(s.ahead(1));
  }
  static constexpr void after_forward(zero::ScheduleBuilder& s, std::size_t u) { leave(s, u); }
  static constexpr void before_backward(zero::ScheduleBuilder& s, std::size_t u) { s.gather(u); }
  static constexpr void after_backward(zero::ScheduleBuilder& s, std::size_t u) { leave(s, u); }
  static constexpr void leave(zero::ScheduleBuilder& s, std::size_t u) {
    if (s.next_use(u) == zero::never) s.release(u);
  }
};

template <class Params, class... Outer>
using With = zero::Stage<Outer..., zero::ShardOptimizer<>, zero::ShardGrads<>, Params>;

using LastKept = With<zero::ShardParams<>, KeepLast>;
using LargeSharded = With<zero::ShardParams<>, ShardFrom<1000>>;
using BackwardAhead = With<TwoAheadInBackward>;
using VectorsWhole = With<zero::ShardParams<>, ReplicateVectors>;
using Lazy = With<PublishLazily>;

static_assert(zero::proven<LastKept> && zero::proven<LargeSharded> && zero::proven<BackwardAhead> &&
              zero::proven<VectorsWhole> && zero::proven<Lazy>);

}  // namespace policies
