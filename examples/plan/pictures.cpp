// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What a schedule looks like: prints that of Zero3 for three units, or draws each stage's.
// usage: pictures [FOLDER]      FOLDER/<stage>.svg, as docs/schedule.md shows them
#include <fstream>
#include <iostream>
#include <string>
#include <vector>
#include <zero/plan/timeline_svg.hpp>
#include <zero/policy/make_schedule.hpp>
#include <zero/policy/proof.hpp>
#include <zero/schedule/print.hpp>

/// How long a step takes alone, in microseconds of a machine that is made up: all units are alike,
/// and a backward takes twice the time of a forward.
double duration(const zero::Step& step) {
  switch (step.op) {
    case zero::Op::forward: return 2000;
    case zero::Op::backward: return 4000;
    case zero::Op::gather:
    case zero::Op::reduce_scatter: return 1500;
    case zero::Op::all_reduce: return 3000;
    case zero::Op::all_reduce_replicas: return 1000;
    case zero::Op::reduce_scatter_replicas:
    case zero::Op::gather_replicas: return 500;
    case zero::Op::combine:
    case zero::Op::update: return 400;
    case zero::Op::square_norm: return 200;
    case zero::Op::fetch_state:
    case zero::Op::store_state: return 1000;
    default: return 0;
  }
}

/// Draws the second of two training steps, each of two micro-steps.
template <class StageType>
bool draw(const std::string& folder, const std::string& name, const std::string& title) {
  static_assert(zero::proven<StageType>);
  const zero::Schedule schedule =
      zero::make_schedule<StageType>(zero::ModelShape(3), zero::training(3, 2));
  const zero::List<zero::Span> spans = zero::timeline(schedule, duration, 2);
  std::ofstream out(folder + "/" + name + ".svg");
  zero::print_timeline_svg(out, schedule, std::span(spans).last(schedule.steps.size()), title,
                           [](std::size_t unit) { return std::to_string(unit); });
  return out.flush().good();
}

int main(int argc, char** argv) {
  if (argc == 1) {
    zero::print(std::cout,
                zero::make_schedule<zero::Zero3>(zero::ModelShape(3), zero::training(3, 1)));
    return 0;
  }
  const std::string folder = argv[1];
  const bool drawn =
      draw<zero::Ddp>(folder, "ddp", "Ddp: nothing is sharded") &&
      draw<zero::Zero1>(folder, "zero1", "Zero1: the optimizer state is sharded") &&
      draw<zero::Zero2>(folder, "zero2", "Zero2: and gradients") &&
      draw<zero::Zero3>(folder, "zero3", "Zero3: and parameters") &&
      draw<zero::Hybrid>(folder, "hybrid", "Hybrid: Zero3 in groups of ranks") &&
      draw<zero::Hpz>(folder, "hpz", "Hpz: Zero3 in groups, optimizer state over all") &&
      draw<zero::OffloadOf<zero::Zero3>>(folder, "offload",
                                         "OffloadOf<Zero3>: the optimizer state lies in a file");
  if (!drawn) std::cerr << "pictures: cannot write into " << folder << '\n';
  return drawn ? 0 : 1;
}
