// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Options of policies, replicas and turns change no bit of what is trained.
#define BOOST_TEST_MODULE equivalence_options
#define BOOST_TEST_DYN_LINK
#include <boost/test/unit_test.hpp>
#include <set>
#include <type_traits>

#include "grid.hpp"

using grid::Case;
using grid::Outcome;
using grid::train;
using zero::GradsOptions;
using zero::ParamsOptions;
using zero::ScheduleBuilder;
using zero::ShardGrads;
using zero::ShardOptimizer;
using zero::ShardParams;
using zero::Slots;
using zero::Stage;
using zero::StreamMode;
using zero::UserCode;

namespace {

// Many options in one module, for the sake of compile time: a policy that stands for the one of its
// list that is chosen at run time, and for the first while the compiler proves the stage.
std::size_t chosen_params = 0, chosen_grads = 0;  // set before the ranks begin

template <std::size_t& chosen, class... Policies>
struct OneOf {
  static constexpr std::size_t count = sizeof...(Policies);

  struct ChosenSlots {
    constexpr operator Slots() const {
      Slots found{};
      choose([&]<class P>() { found = P::slots; });
      return found;
    }
  };
  static constexpr ChosenSlots slots{};

  template <class F>
  static constexpr void choose(F f) {
    std::size_t number = 0, i = 0;
    if (!std::is_constant_evaluated()) number = chosen;
    (void)(... || (i++ == number && (f.template operator()<Policies>(), true)));
  }
};

template <class... Policies>
struct AnyParams : OneOf<chosen_params, Policies...> {
  using shards = zero::Parameters;
  using Base = OneOf<chosen_params, Policies...>;
  static constexpr void before_forward(ScheduleBuilder& s, std::size_t u) {
    Base::choose([&]<class P>() { P::before_forward(s, u); });
  }
  static constexpr void after_forward(ScheduleBuilder& s, std::size_t u) {
    Base::choose([&]<class P>() { P::after_forward(s, u); });
  }
  static constexpr void before_backward(ScheduleBuilder& s, std::size_t u) {
    Base::choose([&]<class P>() { P::before_backward(s, u); });
  }
  static constexpr void after_backward(ScheduleBuilder& s, std::size_t u) {
    Base::choose([&]<class P>() { P::after_backward(s, u); });
  }
};
template <class... Policies>
struct AnyGrads : OneOf<chosen_grads, Policies...> {
  using shards = zero::Gradients;
  using Base = OneOf<chosen_grads, Policies...>;
  static constexpr void after_backward(ScheduleBuilder& s, std::size_t u) {
    Base::choose([&]<class P>() { P::after_backward(s, u); });
  }
};

template <std::size_t Forward>
using Ahead =
    AnyParams<ShardParams<ParamsOptions{Forward, 0}>, ShardParams<ParamsOptions{Forward, 1}>,
              ShardParams<ParamsOptions{Forward, 2}>, ShardParams<ParamsOptions{Forward, 3}>>;
template <class... Lists>
struct Joined;
template <class... A, class... B, class... Rest>
struct Joined<AnyParams<A...>, AnyParams<B...>, Rest...> : Joined<AnyParams<A..., B...>, Rest...> {
};
template <class... A>
struct Joined<AnyParams<A...>> {
  using type = AnyParams<A...>;
};
using Params = Joined<
    AnyParams<ShardParams<>>, Ahead<0>, Ahead<1>, Ahead<2>, Ahead<3>,
    AnyParams<ShardParams<ParamsOptions{.slots = 4}>,
              ShardParams<ParamsOptions{.forward_prefetch = 0, .backward_prefetch = 0, .slots = 5}>,
              ShardParams<ParamsOptions{.keep_at_turn = 0}>,
              ShardParams<ParamsOptions{.keep_at_turn = 2}>,
              ShardParams<ParamsOptions{.forward_prefetch = 3, .keep_at_turn = 3}>,
              ShardParams<ParamsOptions{.keep_at_turn = zero::keep_all}>>>::type;

constexpr std::size_t early_grads = 4;  // of the following, those that reduce in each micro-step
using Grads = AnyGrads<ShardGrads<>, ShardGrads<GradsOptions{.slots = 1}>,
                       ShardGrads<GradsOptions{.slots = 3}>, ShardGrads<GradsOptions{.slots = 7}>,
                       ShardGrads<GradsOptions{.slots = 1, .every_micro_step = false}>,
                       ShardGrads<GradsOptions{.slots = 2, .every_micro_step = false}>,
                       ShardGrads<GradsOptions{.slots = 6, .every_micro_step = false}>>;

using AnyZero2 = Stage<ShardOptimizer<>, Grads>;
using AnyZero3 = Stage<ShardOptimizer<>, Grads, Params>;
using AnyHybrid = Stage<zero::Replicate, ShardOptimizer<>, Grads, Params>;
using Turns =
    Stage<zero::TakeTurns, zero::Replicate, ShardOptimizer<>, ShardGrads<>, ShardParams<>>;

template <class StageType>
Outcome train_with(const Case& c, std::size_t params, std::size_t grads) {
  chosen_params = params;
  chosen_grads = grads;
  return train<StageType>(c);
}
void check_equal(const Case& c, std::size_t params, std::size_t grads, const Outcome& outcome,
                 const Outcome& expected) {
  BOOST_CHECK_MESSAGE(!outcome.empty() && outcome == expected,
                      c.text() << ": other bits with options " << params << " of ShardParams and "
                               << grads << " of ShardGrads");
}

/// Of units that differ in nothing, over enough of them to see every option.
template <class StageType>
std::uint64_t hash_with(std::size_t params, std::size_t grads) {
  chosen_params = params;
  chosen_grads = grads;
  return zero::hash(zero::make_schedule<StageType>(zero::ModelShape(12), zero::training(12, 3)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_option_makes_another_schedule) {
  std::set<std::uint64_t> hashes;
  for (std::size_t p = 0; p < Params::count; ++p) hashes.insert(hash_with<AnyZero3>(p, 0));
  BOOST_TEST(hashes.size() == Params::count - 1);  // the first is one of the following
  hashes.clear();
  for (std::size_t g = 0; g < Grads::count; ++g) hashes.insert(hash_with<AnyZero2>(0, g));
  BOOST_TEST(hashes.size() == Grads::count - 2);  // those that reduce late need all slots at once
}

BOOST_AUTO_TEST_CASE(prefetch_slots_and_keep_change_no_bit_and_leave_nothing_gathered) {
  for (const grid::Shapes& shapes : grid::models) {
    for (const std::size_t world : {1U, 2U, 5U}) {
      Case c{.shapes = shapes, .world = world, .steps = 4, .micro_steps = {1, 1, 3}};
      const Outcome expected = train_with<AnyZero2>(c, 0, 0);
      for (std::size_t params = 0; params < Params::count; ++params) {
        c.options.streams = params % 2 == 0 ? StreamMode::inline_run : StreamMode::shuffled;
        c.options.user_code = params % 3 == 0 ? UserCode::on_caller : UserCode::on_stream;
        c.options.poison = true;
        c.options.seed = params + world;
        const Outcome outcome = train_with<AnyZero3>(c, params, 0);
        check_equal(c, params, 0, outcome, expected);
        BOOST_TEST(outcome.gathered_bytes == 0U);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(slots_of_gradients_change_no_bit_nor_does_reducing_late_among_itself) {
  for (const grid::Shapes& shapes : grid::models) {
    for (const std::size_t world : {2U, 3U}) {
      Case c{.shapes = shapes, .world = world, .steps = 4, .micro_steps = {3, 1, 1, 3}};
      const Outcome early = train_with<AnyZero2>(c, 0, 0), late = train<zero::Ddp>(c);
      for (std::size_t grads = 0; grads < Grads::count; ++grads) {
        const Outcome& expected = grads < early_grads ? early : late;
        c.options.streams = grads % 2 == 0 ? StreamMode::asynchronous : StreamMode::shuffled;
        c.options.seed = grads;
        check_equal(c, 0, grads, train_with<AnyZero2>(c, 0, grads), expected);
        check_equal(c, 0, grads, train_with<AnyZero3>(c, 0, grads), expected);
        c.options.user_code = UserCode::on_stream;
        check_equal(c, 0, grads, train_with<AnyZero3>(c, grads, grads), expected);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(replicas_and_turns_change_no_bit_between_options_and_none_of_exact_gradients) {
  for (const grid::Shapes& shapes : grid::models) {
    for (const auto& [world, replicas] : {std::pair{2, 2}, {4, 2}, {6, 3}, {8, 2}}) {
      if (world > 4 && shapes.units() != 3) continue;
      Case c{.shapes = shapes,
             .world = static_cast<std::size_t>(world),
             .replicas = static_cast<std::size_t>(replicas),
             .steps = 4,
             .micro_steps = {1, 3, 3}};
      const Outcome expected = train_with<AnyHybrid>(c, 0, 0);
      const grid::Reference reference(c);
      BOOST_TEST(reference.distance(expected) < 1e-6);
      BOOST_TEST(reference.norm_distance(expected) < 1e-6);
      for (std::size_t k = 0; k < 4; ++k) {
        c.options.streams = k % 2 == 0 ? StreamMode::shuffled : StreamMode::asynchronous;
        c.options.user_code = k / 2 == 0 ? UserCode::on_stream : UserCode::on_caller;
        c.options.seed = k;
        c.options.poison = true;
        const std::size_t params = (7 * k + 3) % Params::count;
        check_equal(c, params, k, train_with<AnyHybrid>(c, params, k), expected);
      }
      check_equal(c, 0, 0, train<Turns>(c), expected);
      c.exact = true;
      const Outcome exact = train_with<AnyHybrid>(c, 0, 0);
      check_equal(c, 1, 5, train_with<AnyHybrid>(c, 1, 5), exact);
      c.replicas = 1;
      BOOST_TEST((train_with<AnyZero3>(c, 0, 0).weights == exact.weights));
    }
  }
}
