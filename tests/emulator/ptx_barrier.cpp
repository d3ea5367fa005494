// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Barriers of a block.
#include <bit>

#include "ptx_choose.hpp"
#include "ptx_warp.hpp"

namespace emulator::ptx {

namespace {

/// The threads that wait at one of the numbered barriers.
struct Waiting {
  unsigned arrived = 0, expected = 0, yes = 0;
};

/// The instruction at which a lane waits.
const Instruction& waits_at(Warp& warp, unsigned lane) {
  return warp.execution().program.code[warp.next[lane] - 1];
}
std::uint64_t number_of(Warp& warp, const Instruction& i, unsigned lane) {
  return warp.row(i.from[0])[lane] & 15;
}
/// A barrier may be for some of the threads: then it says for how many.
bool says_how_many(const Instruction& i) { return i.operands == (i.option == Join::none ? 2 : 3); }

}  // namespace

bool Execution::release_barrier() {
  Waiting barriers[16];
  unsigned alive = 0;
  for (Warp& warp : warps) {
    alive += static_cast<unsigned>(std::popcount(warp.alive));
    for_lanes(warp.waiting, [&](unsigned lane) {
      const Instruction& i = waits_at(warp, lane);
      Waiting& barrier = barriers[number_of(warp, i, lane)];
      ++barrier.arrived;
      if (says_how_many(i)) barrier.expected = static_cast<unsigned>(warp.row(i.from[1])[lane]);
      if (i.option != Join::none) barrier.yes += holds(warp, i, i.operands - 1U) >> lane & 1;
    });
  }
  bool released = false;
  for (Warp& warp : warps) {
    for_lanes(warp.waiting, [&](unsigned lane) {
      const Instruction& i = waits_at(warp, lane);
      const Waiting& barrier = barriers[number_of(warp, i, lane)];
      if (barrier.arrived < (barrier.expected == 0 ? alive : barrier.expected)) return;
      const Mask bit = Mask{1} << lane;
      if (i.option == Join::count) warp.row(i.to[0])[lane] = barrier.yes;
      if (i.option == Join::all) {
        set_predicate(warp, i.to[0], bit, barrier.yes == barrier.arrived ? bit : 0);
      }
      if (i.option == Join::any) set_predicate(warp, i.to[0], bit, barrier.yes != 0 ? bit : 0);
      warp.waiting &= ~bit;
      released = true;
    });
  }
  return released;
}

}  // namespace emulator::ptx
