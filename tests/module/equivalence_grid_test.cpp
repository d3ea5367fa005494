// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Gradients without rounding train the same bits in every combination of mesh, stage, time of
// communication, type, clipping, loss scale, tied and frozen tensors.
#include <boost/test/unit_test.hpp>
#include <iostream>

#include "../share.hpp"
#include "grid.hpp"

BOOST_AUTO_TEST_SUITE(equivalence_grid_test)

using grid::Case;
using grid::Outcome;
using zero::GradsOptions;
using zero::HybridOf;
using zero::ShardGrads;
using zero::ShardOptimizer;
using zero::ShardParams;
using zero::Stage;
using zero::stage_value;
using zero::StageValue;

constexpr std::size_t world = 4;
constexpr GradsOptions late{.slots = 1, .every_micro_step = false};
using Late2 = Stage<ShardOptimizer<>, ShardGrads<late>>;
using Late3 = Stage<ShardOptimizer<>, ShardGrads<late>, ShardParams<>>;

struct Placed {
  const char* name;
  StageValue stage;
  std::size_t replicas;
};
/// Each stage, early and late, plain and on 4x1, 2x2 and 1x4 (shards x replicas).
std::vector<Placed> placed_stages() {
  std::vector<Placed> all{{"Zero1", stage_value<zero::Zero1>, 1},
                          {"Zero2", stage_value<zero::Zero2>, 1},
                          {"Zero2, late", stage_value<Late2>, 1},
                          {"Zero3", stage_value<zero::Zero3>, 1},
                          {"Zero3, late", stage_value<Late3>, 1}};
  for (const std::size_t replicas : {1U, 2U, 4U}) {
    all.push_back({"hybrid Ddp", stage_value<HybridOf<zero::Ddp>>, replicas});
    all.push_back({"hybrid Zero1", stage_value<HybridOf<zero::Zero1>>, replicas});
    all.push_back({"hybrid Zero2", stage_value<HybridOf<zero::Zero2>>, replicas});
    all.push_back({"hybrid Zero2, late", stage_value<HybridOf<Late2>>, replicas});
    all.push_back({"hybrid", stage_value<zero::Hybrid>, replicas});
    all.push_back({"hybrid, late", stage_value<HybridOf<Late3>>, replicas});
    all.push_back({"hpZ", stage_value<zero::Hpz>, replicas});
  }
  return all;
}

/// How many combinations there are, and how many of them were trained.
struct Count {
  std::size_t all = 0, tried = 0;
};

/// Trains in the combinations of the rest.
template <class T>
void check_all(const zero::Precision& types, Count& count) {
  // Nothing special, tied, frozen and tied, frozen.
  const grid::Shapes plain{"two odd units", 1, 0, 1, grid::odd, grid::odd, grid::tiny, false};
  const zero::LossScale scales[] = {zero::LossScale::fixed(1024),
                                    {.initial = 256, .growth_interval = 2}};
  const std::vector<Placed> stages = placed_stages();
  for (const grid::Shapes& shapes : {plain, grid::models[1], grid::models[4], grid::models[2]}) {
    for (const double max_norm : {std::numeric_limits<double>::infinity(), 0.5}) {
      Case c{.shapes = shapes, .world = world, .micro_steps = {3, 1}, .exact = true};
      c.max_norm = max_norm;
      const Outcome expected = grid::train<T>(stage_value<zero::Ddp>, c, types);
      BOOST_TEST(!expected.empty());
      for (const bool scaled : {false, true}) {
        for (const Placed& placed : stages) {
          if (++count.all % share != 0) continue;
          ++count.tried;
          c.replicas = placed.replicas;
          c.options.loss_scale = scaled ? scales[count.all % 2] : zero::LossScale::fixed(1);
          c.options.seed = count.all;
          c.options.streams =
              count.all % 3 == 0 ? zero::StreamMode::shuffled : zero::StreamMode::asynchronous;
          c.options.user_code =
              count.all % 2 == 0 ? zero::UserCode::on_stream : zero::UserCode::on_caller;
          const Outcome outcome = grid::train<T>(placed.stage, c, types);
          BOOST_CHECK_MESSAGE(outcome == expected, c.text() << ": other bits in " << placed.name
                                                            << (scaled ? ", scaled" : "")
                                                            << (max_norm < 1 ? ", clipped" : ""));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(all_combinations_of_mesh_stage_type_clipping_and_scale_train_the_same_bits) {
  Count count;
  check_all<float>(zero::precision_of<float>, count);
  check_all<zero::bf16>(zero::precision_of<zero::bf16>, count);
  BOOST_TEST(count.all == 2U * 4 * 2 * 2 * (5 + 3 * 7));
  std::cout << "zero-counted: " << count.tried << " combinations trained the same bits\n";
}

BOOST_AUTO_TEST_SUITE_END()
