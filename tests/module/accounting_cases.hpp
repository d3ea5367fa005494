// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What the tests of accounting do with each stage and type of weights.
#pragma once

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "../share.hpp"
#include "grid.hpp"

namespace accounting {

using zero::BytesHeld;
using zero::Traffic;

struct Measured {
  BytesHeld held, predicted;
  std::vector<Traffic> sent;                // in one step of each number of micro-steps
  std::vector<zero::BytesSent> to_be_sent;  // the same, predicted
};
inline const std::vector<std::size_t> micro_steps{1, 3, 2};

inline Traffic operator-(const Traffic& a, const Traffic& b) {
  return {a.all_gather - b.all_gather, a.reduce_scatter - b.reduce_scatter,
          a.all_reduce - b.all_reduce, a.broadcast - b.broadcast};
}

template <class StageType, class T>
std::vector<Measured> measure(const grid::Shapes& shapes, std::size_t world, std::size_t replicas) {
  std::vector<Measured> ranks(world);
  zero::run_threads(world, [&](zero::ThreadCommunicator& comm) {
    auto module =
        zero::shard<StageType, T>(grid::make_model(shapes), zero::mesh(comm, replicas), grid::adam);
    module.initialize(grid::initial_weight);
    module.compare_replicas();  // or else the first step does so
    Measured& mine = ranks[comm.rank()];
    mine.held = module.bytes_held();
    mine.predicted = module.predicted_bytes_held();
    for (const std::size_t m : micro_steps) {
      const Traffic before = module.sent();
      auto step = module.begin_step({.micro_steps = m});
      for (std::size_t k = 0; k < m; ++k) {
        for (auto unit : step.forward()) (void)unit;
        for (auto unit : step.backward()) (void)unit;
      }
      (void)step.finish();
      module.synchronize();
      comm.barrier();  // who reads counts for its peer, so that all must have read
      mine.sent.push_back(module.sent() - before);
      mine.to_be_sent.push_back(module.predicted_bytes_sent(m));
    }
  });
  return ranks;
}

inline void check(const std::string& where, const std::vector<Measured>& ranks) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const BytesHeld &held = ranks[r].held, &predicted = ranks[r].predicted;
    BOOST_CHECK_MESSAGE(
        held == predicted && held == ranks[0].held,
        where << ": rank " << r << " holds " << held.weights << " + " << held.gradients << " + "
              << held.optimizer << " + " << held.slots << " + " << held.staging << " + "
              << held.control << " bytes, predicted " << predicted.weights << " + "
              << predicted.gradients << " + " << predicted.optimizer << " + " << predicted.slots
              << " + " << predicted.staging << " + " << predicted.control);
    for (std::size_t k = 0; k < micro_steps.size(); ++k) {
      const Traffic& sent = ranks[r].sent[k];
      const zero::BytesSent& expected = ranks[r].to_be_sent[k];
      BOOST_CHECK_MESSAGE(sent.all_gather == expected.all_gather &&
                              sent.reduce_scatter == expected.reduce_scatter &&
                              sent.all_reduce == expected.all_reduce && sent.broadcast == 0,
                          where << ": rank " << r << " sent " << sent.all_gather << " + "
                                << sent.reduce_scatter << " + " << sent.all_reduce << " + "
                                << sent.broadcast << " bytes in " << micro_steps[k]
                                << " micro-steps, predicted " << expected.all_gather << " + "
                                << expected.reduce_scatter << " + " << expected.all_reduce);
    }
  }
}

template <class StageType, class T>
void check_stage(const std::string& stage) {
  for (const grid::Shapes& shapes : grid::models) {
    for (const std::size_t world : {1U, 2U, 3U, 4U, 5U, 8U}) {
      if (share > 1 && world % 3 != 0) continue;
      check(stage + ", " + shapes.name + ", " + std::to_string(world) + " ranks",
            measure<StageType, T>(shapes, world, 1));
    }
  }
}
template <class StageType, class T>
void check_hybrid(const std::string& stage) {
  for (const grid::Shapes& shapes : grid::models) {
    for (const auto& [world, replicas] :
         {std::pair{1, 1}, {2, 2}, {3, 3}, {4, 2}, {5, 5}, {6, 3}, {6, 2}, {8, 4}}) {
      if (share > 1 && world != 4) continue;
      check(stage + ", " + shapes.name + ", " + std::to_string(world) + " ranks, " +
                std::to_string(replicas) + " replicas",
            measure<StageType, T>(shapes, static_cast<std::size_t>(world),
                                  static_cast<std::size_t>(replicas)));
    }
  }
}

}  // namespace accounting
