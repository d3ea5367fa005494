// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Options of policies, replicas and turns change no bit of what is trained.
#include <boost/test/unit_test.hpp>
#include <set>

#include "../share.hpp"
#include "grid.hpp"

BOOST_AUTO_TEST_SUITE(equivalence_options_test)

using grid::Case;
using grid::Outcome;
using grid::train;
using zero::GradsOptions;
using zero::keep_all;
using zero::ParamsOptions;
using zero::ShardGrads;
using zero::ShardOptimizer;
using zero::ShardParams;
using zero::Stage;
using zero::stage_value;
using zero::StageValue;
using zero::StreamMode;
using zero::UserCode;

template <GradsOptions Grads>
inline constexpr StageValue zero2 = stage_value<Stage<ShardOptimizer<>, ShardGrads<Grads>>>;
template <ParamsOptions Params, GradsOptions Grads = GradsOptions{}>
inline constexpr StageValue zero3 =
    stage_value<Stage<ShardOptimizer<>, ShardGrads<Grads>, ShardParams<Params>>>;
template <ParamsOptions Params, GradsOptions Grads = GradsOptions{}>
inline constexpr StageValue hybrid =
    stage_value<Stage<zero::Replicate, ShardOptimizer<>, ShardGrads<Grads>, ShardParams<Params>>>;

constexpr GradsOptions one{.slots = 1}, three{.slots = 3}, seven{.slots = 7},
    late{.slots = 1, .every_micro_step = false}, late_six{.slots = 6, .every_micro_step = false};

const std::vector<StageValue> with_params{
    zero3<ParamsOptions{0, 0}>,
    zero3<ParamsOptions{0, 1}>,
    zero3<ParamsOptions{0, 2}>,
    zero3<ParamsOptions{0, 3}>,  //
    zero3<ParamsOptions{1, 0}>,
    zero3<ParamsOptions{1, 1}>,
    zero3<ParamsOptions{1, 2}>,
    zero3<ParamsOptions{1, 3}>,  //
    zero3<ParamsOptions{2, 0}>,
    zero3<ParamsOptions{2, 1}>,
    zero3<ParamsOptions{2, 2}>,
    zero3<ParamsOptions{2, 3}>,  //
    zero3<ParamsOptions{3, 0}>,
    zero3<ParamsOptions{3, 1}>,
    zero3<ParamsOptions{3, 2}>,
    zero3<ParamsOptions{3, 3}>,  //
    zero3<ParamsOptions{.slots = 4}>,
    zero3<ParamsOptions{.forward_prefetch = 0, .backward_prefetch = 0, .slots = 5}>,
    zero3<ParamsOptions{.keep_at_turn = 0}>,
    zero3<ParamsOptions{.keep_at_turn = 2}>,
    zero3<ParamsOptions{.forward_prefetch = 3, .keep_at_turn = 3}>,
    zero3<ParamsOptions{.keep_at_turn = keep_all}>};
const std::vector<StageValue> early_grads{zero2<one>,
                                          zero2<three>,
                                          zero2<seven>,
                                          zero3<ParamsOptions{}, one>,
                                          zero3<ParamsOptions{}, three>,
                                          zero3<ParamsOptions{2, 1}, one>,
                                          zero3<ParamsOptions{.keep_at_turn = keep_all}, seven>};
const std::vector<StageValue> late_grads{zero2<late>, zero2<late_six>, zero3<ParamsOptions{}, late>,
                                         zero3<ParamsOptions{3, 2, 0, keep_all}, late_six>};
const std::vector<StageValue> with_replicas{
    hybrid<ParamsOptions{}>, hybrid<ParamsOptions{2, 0}, one>,
    hybrid<ParamsOptions{0, 3, 5}, three>, hybrid<ParamsOptions{3, 1, 0, keep_all}, seven>,
    stage_value<
        Stage<zero::TakeTurns, zero::Replicate, ShardOptimizer<>, ShardGrads<>, ShardParams<>>>};
const std::vector<StageValue> with_shared_replicas{
    stage_value<zero::Hpz>,
    stage_value<Stage<zero::ReplicateParams, ShardOptimizer<>, ShardGrads<GradsOptions{1, true}>,
                      ShardParams<ParamsOptions{3, 1, 0, keep_all}>>>,
    stage_value<Stage<zero::ReplicateParams, ShardOptimizer<>, ShardGrads<>>>,
    stage_value<Stage<zero::TakeTurns, zero::ReplicateParams, ShardOptimizer<>, ShardGrads<>,
                      ShardParams<>>>};

/// The inputs that differ from run to run, and must not matter.
void vary(Case& c, std::size_t number) {
  constexpr StreamMode modes[] = {StreamMode::shuffled, StreamMode::inline_run,
                                  StreamMode::shuffled, StreamMode::asynchronous};
  c.options.streams = modes[number % 4];
  c.options.user_code = number / 2 % 2 == 0 ? UserCode::on_stream : UserCode::on_caller;
  c.options.poison = true;
  c.options.seed = number;
}
void check_all(Case c, const std::vector<StageValue>& stages, const Outcome& expected) {
  for (std::size_t i = 0; i < stages.size(); ++i) {
    vary(c, i + c.world);
    const Outcome outcome = train(stages[i], c);
    BOOST_CHECK_MESSAGE(!outcome.empty() && outcome == expected,
                        c.text() << ": other bits with options " << i);
    BOOST_TEST(outcome.gathered_bytes == 0U);
  }
}

BOOST_AUTO_TEST_CASE(each_option_makes_another_schedule) {
  std::set<std::uint64_t> hashes;
  for (const StageValue& stage : with_params) {
    hashes.insert(
        zero::hash(zero::make_schedule(stage, zero::ModelShape(12), zero::training(12, 3))));
  }
  BOOST_TEST(hashes.size() == with_params.size());
}

BOOST_AUTO_TEST_CASE(prefetch_slots_and_keep_change_no_bit_and_leave_nothing_gathered) {
  for (const grid::Shapes& shapes : grid::tried_models()) {
    for (const std::size_t world : {1U, 2U, 5U}) {
      if (share > 1 && world == 1) continue;
      const Case c{.shapes = shapes, .world = world, .steps = 4, .micro_steps = {1, 1, 3}};
      check_all(c, with_params, train(stage_value<zero::Zero2>, c));
    }
  }
}

BOOST_AUTO_TEST_CASE(slots_of_gradients_change_no_bit_nor_does_reducing_late_among_itself) {
  for (const grid::Shapes& shapes : grid::tried_models()) {
    for (const std::size_t world : {2U, 3U}) {
      const Case c{.shapes = shapes, .world = world, .steps = 4, .micro_steps = {3, 1, 1, 3}};
      check_all(c, early_grads, train(stage_value<zero::Zero2>, c));
      check_all(c, late_grads, train(stage_value<zero::Ddp>, c));
    }
  }
}

BOOST_AUTO_TEST_CASE(replicas_and_turns_change_no_bit_between_options_and_none_of_exact_gradients) {
  for (const grid::Shapes& shapes : grid::tried_models()) {
    for (const auto& [world, replicas] : {std::pair{2U, 2U}, {4U, 2U}, {6U, 3U}, {8U, 2U}}) {
      if (world > 4 && shapes.units() != 3) continue;
      Case c{.shapes = shapes,
             .world = world,
             .replicas = replicas,
             .steps = 4,
             .micro_steps = {1, 3, 3}};
      const Outcome expected = train(stage_value<zero::Hybrid>, c);
      const grid::Reference reference(c);
      BOOST_TEST(reference.distance(expected) < 1e-6);
      BOOST_TEST(reference.norm_distance(expected) < 1e-6);
      check_all(c, with_replicas, expected);
      // The norm is summed in other parts, so that its last bits may differ; nothing else may.
      for (const StageValue& stage : with_shared_replicas) {
        const Outcome outcome = train(stage, c);
        BOOST_TEST((outcome.weights == expected.weights && outcome.states == expected.states &&
                    outcome.evaluated == expected.evaluated));
        BOOST_TEST(reference.norm_distance(outcome) < 1e-6);
      }
      c.exact = true;
      const Outcome exact = train(stage_value<zero::Hybrid>, c);
      const Outcome late_outcome = train(hybrid<ParamsOptions{}, late>, c);
      BOOST_TEST((late_outcome == exact));
      check_all(c, with_shared_replicas, exact);
      check_all(c, {stage_value<Stage<zero::ReplicateParams, ShardOptimizer<>>>}, exact);
      c.replicas = 1;
      BOOST_TEST((train(stage_value<zero::Zero3>, c).weights == exact.weights));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
