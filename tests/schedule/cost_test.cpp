// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Formulas of the literature, asked of the schedule at compile time.
#include <boost/test/unit_test.hpp>
#include <zero/schedule/cost.hpp>
#include <zero/schedule/verify.hpp>

#include "stages.hpp"

BOOST_AUTO_TEST_SUITE(cost_test)

using namespace tested;

constexpr std::size_t units = 12, ranks = 8, group = 8000, model = units * group;
constexpr std::size_t elements(std::size_t) { return group; }

template <class S>
constexpr ElementsSent sent(std::size_t micro_steps = 1, std::size_t replicas = 1) {
  const Schedule s = make_schedule<S>(ModelShape(units), training(units, micro_steps));
  return traffic(s, elements, ranks, replicas);
}
template <class S>
constexpr std::size_t total(std::size_t micro_steps = 1) {
  const ElementsSent t = sent<S>(micro_steps);
  return t.gathered + t.reduced + t.replicated;
}
constexpr std::size_t once = model / ranks * (ranks - 1);  // one all_gather of the model, per rank
using Keep0 = Deep<1, 1, 0>;

// Rajbhandari et al. 2020, section 7: 2, 2, 2 and 3 times the model.
static_assert(total<Ddp>() == 2 * once);
static_assert(total<Zero1>() == 2 * once);
static_assert(total<Zero2>() == 2 * once);
static_assert(total<Keep0>() == 3 * once);
static_assert(total<Zero3>() == 3 * once - once / units);  // the unit at the turn stays whole
static_assert(total<KeepAll>() == 2 * once);
// Over M micro-steps. Between them is a turn too, so that the first unit stays whole.
static_assert(total<Ddp>(4) == 2 * once && total<Zero1>(4) == 2 * once);
static_assert(total<Zero2>(4) == 5 * once && total<NoSync2>(4) == 2 * once);
static_assert(total<Keep0>(4) == 12 * once);
static_assert(total<Zero3>(4) == 12 * once - 7 * once / units);
static_assert(sent<NoSync>(4).reduced == once && sent<Zero3>(4).reduced == 4 * once);
static_assert(total<KeepAll>(4) == 5 * once);  // gathered once, reduced four times
// HSDP: the outer all_reduce moves 2 (R-1)/R of one shard, once per step.
static_assert(sent<Hybrid>(4, 4).replicated == 2 * (model / ranks) / 4 * 3);
static_assert(sent<HybridOf<Ddp>>(4, 4).replicated == 2 * model / 4 * 3);
static_assert(sent<Zero3>(2, 1).replicated == 0);
// Resident ends are gathered once, after the update; the last one stays whole at the turn anyway.
static_assert(sent<Mixed>().gathered == sent<Zero3>().gathered - once / units);
static_assert(sent<Zero3>(2) == ElementsSent{4 * once - 3 * once / units, 2 * once, 0});
constexpr bool an_evaluation_gathers_the_model_once() {
  const Schedule s = make_schedule<Zero3>(ModelShape(units), evaluation(units));
  return traffic(s, elements, ranks) == ElementsSent{once, 0, 0};
}
static_assert(an_evaluation_gathers_the_model_once());

template <class S>
constexpr Footprint held(const ModelShape& shape = ModelShape(units)) {
  const Schedule s = make_schedule<S>(shape, training(units, 2));
  return footprint(s, elements, ranks);
}
template <class S>
constexpr std::size_t bytes(std::size_t params, std::size_t grads, std::size_t optimizer) {
  const Footprint f = held<S>();
  return params * (f[Space::params_shard] + f[Space::params_whole]) +
         grads * (f[Space::grads_whole] + f[Space::grads_shard]) + optimizer * f[Space::optimizer];
}
// Rajbhandari et al. 2020, figure 1, mixed precision Adam: 2 + 2 + 12 bytes per parameter.
static_assert(bytes<Ddp>(2, 2, 12) == 16 * model);
static_assert(bytes<Zero1>(2, 2, 12) == 4 * model + 12 * model / ranks);
static_assert(bytes<Zero2>(2, 2, 12) == 2 * model + 14 * model / ranks + 2 * 2 * group);
static_assert(bytes<Zero3>(2, 2, 12) == 16 * model / ranks + 2 * 2 * group + 2 * 2 * group);
// With two replicas, ReplicateParams halves what they hold of the optimizer state, and sends no
// more than Replicate: a reduction of gradients over the replicas and a gather of weights in place
// of a sum.
constexpr bool replicas_share_the_optimizer_state() {
  const auto elements = [](std::size_t) { return group; };
  const Schedule hpz = make_schedule<Hpz>(ModelShape(units), training(units));
  const Schedule hybrid = make_schedule<Hybrid>(ModelShape(units), training(units));
  const Footprint shared = footprint(hpz, elements, ranks, 2);
  const Footprint copied = footprint(hybrid, elements, ranks, 2);
  const ElementsSent a = traffic(hpz, elements, ranks, 2), b = traffic(hybrid, elements, ranks, 2);
  const std::size_t across = units * group / ranks / 2;
  return 2 * shared[Space::optimizer] == copied[Space::optimizer] &&
         shared[Space::params_shard] == copied[Space::params_shard] && a.gathered == b.gathered &&
         a.reduced == b.reduced && a.replicated == across && a.gathered_replicas == across &&
         b.replicated == 2 * across && b.gathered_replicas == 0;
}
static_assert(replicas_share_the_optimizer_state());
// Frozen groups have neither gradients nor optimizer state.
constexpr bool frozen_groups_hold_parameters_only() {
  const Footprint half = held<Zero3>(half_frozen(units)), full = held<Zero3>();
  return half[Space::params_shard] == full[Space::params_shard] &&
         half[Space::grads_shard] == full[Space::grads_shard] / 2 &&
         half[Space::optimizer] == full[Space::optimizer] / 2;
}
static_assert(frozen_groups_hold_parameters_only());
// Kinds keep the embedding and the head out of the blocks' slots.
constexpr bool a_slot_is_as_large_as_the_largest_group_in_it() {
  const Schedule s = make_schedule<Zero3>(transformer(12, true), training(14));
  const auto sizes = [](std::size_t g) { return g == 0 ? 1000u : g == 13 ? 8u : 16u; };
  const Footprint f = footprint(s, sizes, 8);
  return f[Space::params_whole] == 1000 + 8 + 2 * 16 && f[Space::grads_whole] == 1000 + 8 + 2 * 16;
}
static_assert(a_slot_is_as_large_as_the_largest_group_in_it());

template <class S>
constexpr std::size_t peak() {
  const Schedule s = make_schedule<S>(ModelShape(units), training(units, 2));
  return peak_whole(s);
}
static_assert(peak<Deep<0>>() == 1 && peak<Zero3>() == 2 && peak<Deep<2>>() == 3);
static_assert(peak<Deep<3>>() == 4 && peak<Deep<1, 3>>() == 4 && peak<Deep<1, 1, 3>>() == 3);
static_assert(peak<KeepAll>() == units && peak<Ddp>() == 0);

// A tied embedding is gathered for the first and for the last unit, and reduced once.
constexpr bool a_tied_group_is_reduced_once() {
  const Schedule tied = make_schedule<Zero3>(transformer(12, true), training(14));
  const Schedule untied = make_schedule<Zero3>(transformer(12, false), training(14));
  return count(tied, Op::reduce_scatter) == 14 && count(tied, Op::square_norm) == 14 &&
         count(tied, Op::gather) == count(untied, Op::gather) + 1;
}
static_assert(a_tied_group_is_reduced_once());

// Waits are few, and the number of units decides how many.
template <class S>
constexpr std::size_t waits(std::size_t n) {
  const Schedule s = make_schedule<S>(ModelShape(n), training(n));
  return count_waits(s);
}
static_assert(waits<Ddp>(12) - waits<Ddp>(8) == 4 * 1);
static_assert(waits<Zero1>(12) - waits<Zero1>(8) == 4 * 3);
static_assert(waits<Zero2>(12) - waits<Zero2>(8) == 4 * 4);
static_assert(waits<Zero3>(12) - waits<Zero3>(8) == 4 * 6);
static_assert(waits<Hybrid>(12) - waits<Hybrid>(8) == 4 * 7);

// The machine model. With one communicator, depth 0 leaves each gather of the backward behind a
// reduction that waits for compute; depth 1 issues it before; one slot hides nothing at any depth.
constexpr double comm = 0.875;
template <std::size_t Depth, std::size_t SlotCount>
using Tuned =
    Stage<ShardOptimizer<>, ShardGrads<>,
          ShardParams<ParamsOptions{
              .forward_prefetch = Depth, .backward_prefetch = Depth, .slots = SlotCount}>>;
template <class S>
constexpr double time_of(bool one_communicator) {
  const Schedule s = make_schedule<S>(ModelShape(8), training(8));
  const auto duration = [](const Step& step) {
    if (step.op == Op::forward) return 1.0;
    if (step.op == Op::backward) return 2.0;
    return step.op == Op::gather || step.op == Op::reduce_scatter ? comm : 0.0;
  };
  return step_time(s, duration, one_communicator);
}
constexpr double compute = 24, ends = 2 * comm;  // the first gather, the last reduction
static_assert(time_of<Tuned<1, 2>>(true) <= compute + ends);
static_assert(time_of<Tuned<0, 2>>(false) <= compute + ends);
static_assert(time_of<Tuned<0, 2>>(true) > time_of<Tuned<0, 2>>(false) + 7 * comm);
static_assert(time_of<Tuned<0, 1>>(false) > time_of<Tuned<0, 2>>(false) + 7 * comm);
static_assert(time_of<Tuned<2, 3>>(true) == time_of<Tuned<1, 2>>(true));

BOOST_AUTO_TEST_CASE(traffic_and_memory_equal_the_formulas_of_the_literature) {
  BOOST_TEST(total<Zero3>() == 3 * once - once / units);
}

BOOST_AUTO_TEST_CASE(a_timeline_respects_streams_and_waits) {
  for_each_stage([]<class S>(const char* name) {
    const Schedule s = make_schedule<S>(ModelShape(5), training(5, 2));
    const auto spans = timeline(
        s, [](const Step& step) { return 1.0 + step.subject; }, 2);
    const std::size_t n = s.steps.size();
    std::size_t wrong = 0;
    double last[stream_count] = {};
    for (std::size_t i = 0; i < 2 * n; ++i) {
      const Step& step = s.steps[i % n];
      for (const std::uint32_t w : step.waits) {
        if (w == no_wait || (w >= i % n && i < n)) continue;
        wrong += spans[i].begin < spans[w < i % n ? i - i % n + w : w].end;
      }
      double& before = last[static_cast<std::size_t>(step.stream)];
      wrong += spans[i].begin < before;
      before = spans[i].end;
    }
    BOOST_TEST(wrong == 0u, name);
  });
}

BOOST_AUTO_TEST_SUITE_END()
