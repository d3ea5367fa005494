// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Groups that stay whole, by size and by name: the same bits, and the bytes that are predicted.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(residents_test)

using namespace harness;

using Small = zero::KeepWhole<zero::ResidentOptions{.smaller_than = 8}>;
using KeepSmall =
    zero::Stage<Small, zero::ShardOptimizer<>, zero::ShardGrads<>, zero::ShardParams<>>;
const zero::Sgd sgd{.learning_rate = 1};

float inexact(const Place& p) {
  return std::sin(static_cast<float>(p.rank * 7 + p.element * 3 + 2 * p.unit + p.tensor + p.step));
}
/// Units of 7, 40 and 8 elements, and one whose frozen group is small and whose trained one is not.
Model sizes_around_the_threshold() {
  return model_of({"small", 2, sizes({5, 2})}, {"large", 2, sizes({40})},
                  {"mixed", 1, sizes({8, 3}).frozen({1})});
}
struct Seen {
  Outcome outcome;
  bool held = false, sent = false;
  std::vector<std::size_t> gathers;  // [group]
};
std::vector<Seen> seen_in(const NamedStage& stage, const Setup& setup, const Model& model) {
  return on_ranks(stage, setup, model, sgd, [&](auto& module) {
    Seen seen;
    Plan plan{.steps = 3, .micro_steps = 2, .gradient = inexact};
    plan.finish.max_norm = 3;
    module.initialize([](const auto&, std::size_t i) { return static_cast<float>(i) / 3; });
    std::size_t before = 0;
    plan.before = [&](std::size_t k) {
      module.synchronize();
      if (k == 1) before = module.sent().total();
      if (k == 2) {
        const std::size_t one = module.predicted_bytes_sent(2).total();
        seen.sent = module.sent().total() - before == one;
      }
    };
    seen.outcome = train(module, setup.options.user_code, plan, false);
    seen.held = module.bytes_held() == module.predicted_bytes_held();
    seen.gathers.resize(module.schedule().model.groups());
    for (const zero::Step& step : module.schedule().steps) {
      seen.gathers[step.subject] += step.op == zero::Op::gather;
    }
    return seen;
  });
}

BOOST_AUTO_TEST_CASE(small_groups_stay_whole_with_the_same_bits_and_the_predicted_bytes) {
  const Model model = sizes_around_the_threshold();
  const auto check = [&](const NamedStage& with_kept, const NamedStage& without) {
    for (const Mode& mode : tried_modes()) {
      const Setup setup = Setup{}.in(mode).on(4, without.replicas);
      const auto kept = seen_in(with_kept, setup, model), plain = seen_in(without, setup, model);
      for (std::size_t r = 0; r < 4; ++r) {
        BOOST_TEST_CONTEXT(mode.name << ", " << without) {
          BOOST_TEST(same_bits(kept[r].outcome, plain[r].outcome));
          BOOST_TEST(kept[r].held);
          BOOST_TEST(kept[r].sent);
          // small.0, small.1, large.0, large.1, and of mixed the trained and the frozen group.
          const std::vector<std::size_t> gathers{1, 1, 4, 4, 2, 0};
          BOOST_TEST(kept[r].gathers == gathers, boost::test_tools::per_element());
        }
      }
    }
  };
  check(named<KeepSmall>("kept"), named<zero::Zero3>("stage 3"));
  check(named<zero::HybridOf<KeepSmall>>("kept", 2), named<zero::Hybrid>("hybrid", 2));
}

BOOST_AUTO_TEST_CASE(a_unit_that_stays_whole_by_name_does_so_in_every_stage) {
  const Model model = model_of({"embed", 1, sizes({40}), {}, true}, {"block", 2, sizes({5, 2})},
                               {"head", 1, sizes({3}), {"embed"}});
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Seen& seen : seen_in(stage, Setup{}.on(2, stage.replicas), model)) {
      BOOST_TEST(seen.held, stage);
      BOOST_TEST(seen.sent, stage);
      BOOST_TEST(seen.gathers[0] == (stage.value.traits.shards_optimizer ? 1U : 0U), stage);
    }
  });
}

// B19: gradients of 1: 16 elements in all, of whatever size and kept in whatever way.
BOOST_AUTO_TEST_CASE(what_stays_whole_counts_once_in_the_norm) {
  const Model model = model_of({"small", 1, sizes({4})}, {"large", 1, sizes({12})});
  for (const Mode& mode : tried_modes()) {
    for (const Outcome& rank : train<KeepSmall>(Setup{}.in(mode).on(4), model, sgd, {.steps = 3})) {
      BOOST_TEST(rank.steps[0].norm == 4.0, mode.name);
      BOOST_TEST(all_are(rank.weights, -3), mode.name);
      BOOST_TEST(all_are(rank.seen[2], -2), mode.name);
    }
  }
}

// A tensor that is thawed joins a larger group, which may then be too large to stay whole.
BOOST_AUTO_TEST_CASE(thawing_decides_anew_what_stays_whole) {
  const Model model = model_of({"unit", 2, sizes({6, 5}).frozen({1})});
  for (const auto& [before, after, held, weights] :
       on_ranks<KeepSmall>(Setup{}.on(2), model, sgd, [](auto& module) {
         const auto whole = [&] {
           std::size_t count = 0;
           for (const zero::Index home : module.schedule().home) count += home != zero::nowhere;
           return count;
         };
         const std::size_t before = whole();
         module.set_frozen("*", false);
         const std::size_t after = whole();
         const Outcome outcome = train(module, zero::UserCode::on_caller, {});
         return std::tuple(before, after, module.bytes_held() == module.predicted_bytes_held(),
                           outcome.weights);
       })) {
    BOOST_TEST(before == 4U);
    BOOST_TEST(after == 0U);
    BOOST_TEST(held);
    BOOST_TEST(all_are(weights, -1));
  }
}

BOOST_AUTO_TEST_SUITE_END()
