// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Stage: policies put together. Includes schedule/ and policy/ only.
#pragma once

#include <type_traits>
#include <zero/policy/shards.hpp>
#include <zero/policy/whole_rule.hpp>
#include <zero/schedule/builder.hpp>

namespace zero {

template <class P>
concept ShardPolicy = requires {
  typename P::shards;
};

template <class... Policies>
struct Stage;

/// Why policies are no stage.
enum class Misfit {
  none,
  no_policy,
  bad_hook,
  no_effect,
  twice,
  params_alone,
  grads_alone,
  replicas_alone
};

namespace detail {
template <class What, class... P>
inline constexpr std::size_t times_sharded =
    (std::size_t{std::is_same_v<typename P::shards, What>} + ... + 0);
// A hook of this name is there.
template <class P>
concept HasHook = requires {
  &P::before_forward;
}
|| requires { &P::after_forward; }
|| requires { &P::before_backward; }
|| requires { &P::after_backward; }
|| requires { &P::after_update; }
|| requires { &P::resident; }
|| requires { &P::stays_whole; };
// Each hook can be called as it will be: else it would be left out without a word.
template <class P>
concept HooksFit = requires(ScheduleBuilder& s, const ScheduleBuilder& now, std::size_t u,
                            const TensorFacts& t) {
  requires !requires { &P::before_forward; }
  || requires { P::before_forward(s, u); };
  requires !requires { &P::after_forward; }
  || requires { P::after_forward(s, u); };
  requires !requires { &P::before_backward; }
  || requires { P::before_backward(s, u); };
  requires !requires { &P::after_backward; }
  || requires { P::after_backward(s, u); };
  requires !requires { &P::after_update; }
  || requires { P::after_update(s, u); };
  requires !requires { &P::resident; }
  || requires { P::resident(now, u) ? 0 : 1; };
  requires !requires { &P::stays_whole; }
  || requires { P::stays_whole(t) ? 0 : 1; };
};
template <class P>
concept HasEffect = HasHook<P> || !std::is_same_v<typename P::shards, Nothing> || requires {
  P::replicates;
}
|| requires { P::takes_turns; }
|| requires { P::state_home; }
|| requires { P::whole_below; };

template <class... P>
consteval Misfit misfit() {
  if constexpr (!(ShardPolicy<P> && ...)) {
    return Misfit::no_policy;
  } else if constexpr (!(HooksFit<P> && ...)) {
    return Misfit::bad_hook;
  } else if constexpr (!(HasEffect<P> && ...)) {
    return Misfit::no_effect;
  } else {
    constexpr std::size_t params = times_sharded<Parameters, P...>;
    constexpr std::size_t grads = times_sharded<Gradients, P...>;
    constexpr std::size_t optimizer = times_sharded<OptimizerState, P...>;
    constexpr std::size_t homes = (std::size_t{requires { P::state_home;
  }
} + ... + 0);
if (params > 1 || grads > 1 || optimizer > 1 || homes > 1) return Misfit::twice;
constexpr bool parts = (requires { P::shards_replicas; } || ...);
return params > grads           ? Misfit::params_alone
       : grads > optimizer      ? Misfit::grads_alone
       : parts&& optimizer == 0 ? Misfit::replicas_alone
                                : Misfit::none;
}  // namespace detail
}  // namespace zero
/// Where the policies keep optimizer state.
template <class... P>
inline constexpr StateHome state_home = StateHome::here;
template <class First, class... P>
inline constexpr StateHome state_home<First, P...> = [] {
  if constexpr (requires { First::state_home; }) return First::state_home;
  return state_home<P...>;
}();
template <class StageType>
inline constexpr Misfit misfit_of = Misfit::none;
template <class... P>
inline constexpr Misfit misfit_of<Stage<P...>> = misfit<P...>();
}  // namespace detail

/// A training step as a list of policies. Hooks before something run in the order given, hooks
/// after it in the opposite order: policies nest like scopes, the first one outermost.
///
/// A policy has a member type `shards` and, as it needs, static constexpr hooks with arguments
/// (ScheduleBuilder&, std::size_t unit): before_forward, after_forward, before_backward,
/// after_backward, after_update; the question `bool resident(const ScheduleBuilder&, unit)`: are
/// the groups of this unit always whole? and `std::size_t reach`, if it treats that many units at
/// either end of a model in its own way. A number `whole_below` keeps smaller groups whole, and the
/// question `bool stays_whole(const TensorFacts&)` single tensors, in a group of their own. A
/// StateHome `state_home`, with a number of `state_slots`, keeps optimizer state elsewhere.
template <class... Policies>
struct Stage {
  /// Whether a policy shards that.
  template <class What>
  static constexpr bool shards = detail::times_sharded<What, Policies...> != 0;
  static constexpr StageTraits traits{shards<Parameters>,  // what its policies shard, together
                                      shards<Gradients>,
                                      shards<OptimizerState>,
                                      (requires { Policies::replicates; } || ...),
                                      (requires { Policies::shards_replicas; } || ...),
                                      (requires { Policies::takes_turns; } || ...),
                                      detail::state_home<Policies...>};

  /// Adds the steps of one execution of the builder's program.
  static constexpr void emit(ScheduleBuilder& s) {
    for (std::size_t u = 0; u < s.units(); ++u) {
      if (is_resident(s, u)) s.keep_whole(u);
    }
    s.place_slots();
    for (std::size_t place = 0; place < s.program().computes.size(); ++place) {
      const Compute now = s.go_to(place);
      if (now.op == Op::forward) {
        forward(s, now);
      } else {
        backward(s, now);
      }
    }
    if (s.program().updates) updates(s);
    s.finish();
  }

  /// How many slots the policy that shards `What` asks for.
  template <class What>
  static constexpr Slots slots() {
    Slots found{};
    in_order([&]<class P>() {
      if constexpr (std::is_same_v<typename P::shards, What> && requires { P::slots; }) {
        found = P::slots;
      }
    });
    return found;
  }
  /// What is kept whole though parameters are sharded.
  static constexpr WholeRule whole() {
    constexpr bool asks = (requires(const TensorFacts& t) { Policies::stays_whole(t); } || ...);
    return {whole_below(), asks ? &Stage::stays_whole : nullptr, asks};
  }
  /// Units of fewer elements stay whole; 0 for none.
  static constexpr std::size_t whole_below() {
    std::size_t most = 0;
    in_order([&]<class P>() {
      if constexpr (requires { P::whole_below; })
        most = most < P::whole_below ? P::whole_below : most;
    });
    return most;
  }
  /// How many slots optimizer state passes through that is kept elsewhere.
  static constexpr std::size_t state_slots() {
    std::size_t found = 0;
    in_order([&]<class P>() {
      if constexpr (requires { P::state_slots; }) found = P::state_slots;
    });
    return found;
  }
  /// How many units at an end the policies treat in their own way.
  static constexpr std::size_t reach() {
    std::size_t sum = 0;
    in_order([&]<class P>() {
      if constexpr (requires { P::reach; }) sum += P::reach;
    });
    return sum;
  }

 private:
  template <class F>
  static constexpr void in_order([[maybe_unused]] F f) {
    (f.template operator()<Policies>(), ...);
  }
  template <class F>
  static constexpr void reversed([[maybe_unused]] F f) {
    [[maybe_unused]] int last = 0;
    // Assignment evaluates its right side first.
    (void)((f.template operator()<Policies>(), last) = ... = 0);
  }
  static constexpr void forward(ScheduleBuilder& s, Compute now) {
    const std::size_t u = now.unit;
    in_order([&]<class P>() {
      if constexpr (requires { P::before_forward(s, u); }) P::before_forward(s, u);
    });
    s.compute(now);
    reversed([&]<class P>() {
      if constexpr (requires { P::after_forward(s, u); }) P::after_forward(s, u);
    });
  }
  static constexpr void backward(ScheduleBuilder& s, Compute now) {
    const std::size_t u = now.unit;
    in_order([&]<class P>() {
      if constexpr (requires { P::before_backward(s, u); }) P::before_backward(s, u);
    });
    s.compute(now);
    if (!traits.shards_grads) s.reduce(u);  // in place, so that no policy has a say
    reversed([&]<class P>() {
      if constexpr (requires { P::after_backward(s, u); }) P::after_backward(s, u);
    });
  }
  static constexpr void updates(ScheduleBuilder& s) {
    s.fetch_states();
    s.combine();
    for (std::size_t u = 0; u < s.units(); ++u) {
      s.update(u);
      reversed([&]<class P>() {
        if constexpr (requires { P::after_update(s, u); }) P::after_update(s, u);
      });
    }
  }
  static constexpr bool stays_whole(const TensorFacts& tensor) {
    bool whole = false;
    in_order([&]<class P>() {
      if constexpr (requires { P::stays_whole(tensor); }) whole = whole || P::stays_whole(tensor);
    });
    return whole;
  }
  static constexpr bool is_resident(const ScheduleBuilder& s, std::size_t u) {
    bool resident = !traits.shards_params;
    in_order([&]<class P>() {
      if constexpr (requires { P::resident(s, u); }) resident = resident || P::resident(s, u);
    });
    return resident;
  }
};

}  // namespace zero
