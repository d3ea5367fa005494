// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Draws a random_training::Case from a seed.
#pragma once

#include "random_case.hpp"

namespace random_training {

using Deep = zero::Stage<
    zero::ShardOptimizer<>, zero::ShardGrads<zero::GradsOptions{.slots = 3}>,
    zero::ShardParams<zero::ParamsOptions{.forward_prefetch = 2, .backward_prefetch = 3}>>;
using Late =
    zero::Stage<zero::ShardOptimizer<>,
                zero::ShardGrads<zero::GradsOptions{.every_micro_step = false}>,
                zero::ShardParams<zero::ParamsOptions{.forward_prefetch = 0, .keep_at_turn = 2}>>;
using Small = zero::Stage<zero::KeepWhole<zero::ResidentOptions{.smaller_than = 64}>,
                          zero::ShardOptimizer<>, zero::ShardGrads<>, zero::ShardParams<>>;

/// Those from `first_hybrid` on may have replicas.
inline const std::vector<harness::NamedStage>& all_stages() {
  using harness::named, zero::HybridOf;
  static const std::vector<harness::NamedStage> all{
      named<zero::Ddp>("Ddp"),
      named<zero::Zero1>("Zero1"),
      named<zero::Zero2>("Zero2"),
      named<zero::Zero3>("Zero3"),
      named<Deep>("deep Zero3"),
      named<Late>("late Zero3"),
      named<Small>("Zero3, small units whole"),
      named<zero::OffloadOf<zero::Zero3, zero::InHostMemory>>("Zero3, state offloaded"),
      named<HybridOf<zero::Ddp>>("hybrid Ddp"),
      named<HybridOf<zero::Zero1>>("hybrid Zero1"),
      named<HybridOf<zero::Zero2>>("hybrid Zero2"),
      named<zero::Hybrid>("hybrid"),
      named<HybridOf<Late>>("late hybrid"),
      named<zero::Hpz>("hpZ")};
  return all;
}
inline constexpr std::size_t first_hybrid = 8;

inline void draw_model(Dice& dice, Case& c) {
  const char* const names[] = {"p", "q", "r", "s"};
  for (std::size_t i = 0; i < 4; ++i) {
    harness::Units& list = c.lists[i];
    list.name = names[i];
    list.count = i == 3 ? dice.below(2) : dice.of<std::size_t>({0, 1, 1, 2, 3});
    if (i == 2 && c.units.empty() && list.count == 0) list.count = 1;
    for (std::size_t t = 0; t < most_tensors && i < 3; ++t) {
      list.config.shapes[t] = {dice.of<std::size_t>({0, 1, 2, 3, 5, 7, 16, 17, 31, 64, 65, 130})};
      if (dice.chance(15)) list.config = list.config.frozen({t});
      if (dice.chance(20)) list.config = list.config.no_decay({t});
    }
    list.stays_whole = i < 3 && dice.chance(10);
    // Those of the last list have no tensors of their own, and read up to two units.
    std::vector<std::size_t> reads;
    for (std::size_t tries = i == 3 ? 2 : 1; tries > 0 && list.count == 1; --tries) {
      if (c.units.empty() || !dice.chance(i == 3 ? 80 : 25)) continue;
      const std::size_t unit = dice.below(c.units.size());
      if (std::find(reads.begin(), reads.end(), unit) != reads.end()) continue;
      reads.push_back(unit);
      list.reads.push_back(c.units[unit].name);
    }
    for (std::size_t u = 0; u < list.count; ++u) {
      const std::string number = list.count == 1 ? "" : "." + std::to_string(u);
      UnitFacts unit{list.name + number, i < 3, list.config, reads};
      if (i < 3) unit.shows.insert(unit.shows.begin(), c.units.size());
      c.units.push_back(std::move(unit));
    }
  }
}

/// A mesh and a stage for `events` events; `axis`: perhaps with a further axis.
inline Phase draw_phase(Dice& dice, std::size_t events, bool axis) {
  Phase phase{events, {}, all_stages()[0]};
  harness::Setup& setup = phase.setup;
  setup.ranks = dice.of<std::size_t>({1, 2, 2, 3, 4, 4, 5, 6});
  const std::size_t stage = dice.below(all_stages().size());
  phase.stage = all_stages()[stage];
  std::vector<std::size_t> divisors;
  for (std::size_t r = 1; r <= setup.ranks; ++r) {
    if (setup.ranks % r == 0) divisors.push_back(r);
  }
  if (stage >= first_hybrid) setup.replicas = dice.of(divisors);
  if (setup.ranks <= 2 && axis && dice.chance(25)) setup = setup.with_axes({2});
  // From the seed alone; under the thread sanitizer one with threads beside the ranks'.
  harness::Mode mode = dice.of(harness::modes());
  while (share > 1 && mode.streams == zero::StreamMode::inline_run)
    mode = dice.of(harness::modes());
  setup = setup.in(mode, dice.next() % 1000);
  setup.options.time_limit = std::chrono::seconds(30);
  setup.options.poison = dice.chance(75);
  setup.options.max_micro_steps = Case::most_micro_steps;
  return phase;
}

inline void draw_types(Dice& dice, Case& c) {
  constexpr DataType bf = DataType::bf16, fp = DataType::fp16;
  bool exact_averages = true;  // fp16 carries those
  for (const Phase& phase : c.phases) {
    exact_averages = exact_averages && std::has_single_bit(phase.setup.ranks);
  }
  c.types = dice.of<Precision>({{},
                                {.reduce = bf},
                                {.reduce = exact_averages ? fp : bf},
                                {.gather = bf},
                                {.compute = bf},
                                {.compute = bf, .reduce = bf},
                                {.compute = bf, .accumulate = bf},
                                {.compute = bf, .reduce = bf, .accumulate = bf}});
  const bool narrow = c.types.reduce != DataType::fp32 || c.types.accumulate == bf;
  c.most = narrow ? 1 : 8;
  c.momentum = dice.of({0.0F, 0.5F});
  const zero::LossScale moving{.initial = 16,
                               .floor = 0x1p-20,
                               .growth_interval = 2,
                               .hysteresis = dice.of<std::int64_t>({1, 2})};
  c.loss_scale = dice.of({zero::LossScale::fixed(1), zero::LossScale::fixed(64), moving, moving});
}

/// Units in any order, some twice, some recomputed, some not at all, micro-steps that overlap.
inline zero::Program draw_program(Dice& dice, const Case& c) {
  using zero::Compute, zero::Index, zero::Op;
  zero::Program program{{}, 1 + dice.below(3), true};
  std::vector<zero::List<Compute>> micro_steps(program.micro_steps);
  for (std::size_t m = 0; m < program.micro_steps; ++m) {
    zero::List<Compute> forwards, backwards;
    for (std::size_t u = 0; u < c.units.size(); ++u) {
      const std::size_t uses = u == 0 ? 1 : dice.of<std::size_t>({0, 1, 1, 1, Case::most_uses});
      for (std::size_t use = 0; use < uses; ++use) {
        const Compute forward{Op::forward, static_cast<Index>(u), static_cast<Index>(m),
                              static_cast<Index>(use)};
        forwards.push_back(forward);
        backwards.push_back({Op::backward, forward.unit, forward.micro_step, forward.use});
      }
    }
    dice.shuffle(forwards);
    if (dice.chance(70)) dice.shuffle(backwards);
    micro_steps[m] = forwards;
    for (const Compute& b : backwards) {
      if (dice.chance(20)) micro_steps[m].push_back({Op::forward, b.unit, b.micro_step, b.use});
      micro_steps[m].push_back(b);
    }
    std::reverse(micro_steps[m].begin(), micro_steps[m].end());  // to be taken from the back
  }
  const bool overlap = dice.chance(50);
  for (std::size_t left = program.micro_steps; left > 0;) {
    const std::size_t m = overlap ? dice.below(program.micro_steps) : program.micro_steps - left;
    if (micro_steps[m].empty()) continue;
    program.computes.push_back(micro_steps[m].back());
    micro_steps[m].pop_back();
    left -= micro_steps[m].empty();
  }
  return program;
}

inline Event draw_event(Dice& dice, const Case& c, std::size_t ranks) {
  Event e;
  e.key = dice.next();
  e.units = c.units.size();
  const std::size_t what = dice.below(100);
  e.what = what < 65   ? What::step
           : what < 75 ? What::leave
           : what < 85 ? What::evaluate
           : what < 92 ? What::write
                       : What::freeze;
  std::vector<std::string> names;
  for (const UnitFacts& unit : c.units) {
    if (unit.has_own) names.push_back(unit.name);
  }
  e.name = dice.of(names) + "." + "abcd"[dice.below(most_tensors)];
  if (e.what == What::freeze && dice.chance(50)) e.name = e.name.substr(0, 1) + "*";
  e.fixed = dice.chance(50);
  e.loop = dice.of({Loop::ranges, Loop::own, Loop::pass});
  e.micro_steps = 1 + dice.below(Case::most_micro_steps);
  if (dice.chance(40)) e.program = dice.below(c.programs.size());
  if (e.program) e.micro_steps = c.programs[*e.program].micro_steps;
  e.skipped = dice.of({0U, 0U, 20U, 60U});
  e.untouched = dice.of({0U, 0U, 20U});
  e.divisor =
      std::has_single_bit(ranks) ? dice.of({0.0, 0.0, 1.0, 2.0, 4.0}) : dice.of({1.0, 2.0, 4.0});
  e.clip = dice.of({0.0, 0.0, 0.5, 0.25, 1.0, 2.0});
  e.waits = dice.chance(70);
  e.breaks = dice.chance(15);
  e.leaves_after = dice.below(c.program_of(e).computes.size() + 1);
  e.throws = dice.chance(50);
  return e;
}

/// On one mesh after the other, if there are several phases.
inline Case draw(std::uint64_t seed, std::size_t phases = 1) {
  Dice dice(seed);
  Case c;
  c.seed = seed;
  draw_model(dice, c);
  for (std::size_t k = 0; k < phases; ++k) {
    const std::size_t events = phases == 1 ? 4 + dice.below(5) : 1 + dice.below(4);
    c.phases.push_back(draw_phase(dice, events, phases == 1));
  }
  draw_types(dice, c);
  c.programs = {draw_program(dice, c), draw_program(dice, c)};
  const double norm = dice.of({1.0, 2.0, 2.0, std::numeric_limits<double>::infinity()});
  for (Phase& phase : c.phases) {
    phase.setup.options.loss_scale = c.loss_scale;
    phase.setup.options.norm = norm;
    for (std::size_t k = 0; k < phase.events; ++k) {
      c.events.push_back(draw_event(dice, c, phase.setup.ranks));
    }
  }
  return c;
}

inline std::string text(const Case& c) {
  std::ostringstream out;
  out << "seed " << c.seed << ": types " << static_cast<int>(c.types.compute)
      << static_cast<int>(c.types.gather) << static_cast<int>(c.types.reduce)
      << static_cast<int>(c.types.accumulate) << ", units";
  for (const UnitFacts& unit : c.units) {
    out << ' ' << unit.name;
    for (const std::size_t u : unit.shows) out << '/' << u;
  }
  std::size_t k = 0;
  for (const Phase& phase : c.phases) {
    out << "\n " << phase.stage.name << " on " << phase.setup.ranks << " ranks, "
        << phase.setup.replicas << " replicas, " << c.copies() << " copies, streams "
        << static_cast<int>(phase.setup.options.streams)
        << static_cast<int>(phase.setup.options.user_code);
    for (const std::size_t end = k + phase.events; k < end; ++k) {
      const Event& e = c.events[k];
      out << "\n  " << k << " ";
      out << "SLEWF"[static_cast<int>(e.what)] << ' ' << e.name << (e.fixed ? " fixed" : "");
      if (e.what != What::step && e.what != What::leave) continue;
      out << " loop " << static_cast<int>(e.loop) << ", micro-steps " << e.micro_steps
          << ", skipped " << e.skipped << ", untouched " << e.untouched << ", divisor " << e.divisor
          << ", clip " << e.clip << (e.waits ? "" : ", waits not") << (e.breaks ? ", breaks" : "")
          << (e.program ? ", program" : "");
      if (!e.program) continue;
      for (const zero::Compute& p : c.programs[*e.program].computes) {
        out << ' ' << "FB"[p.op == zero::Op::backward] << p.unit << '/' << p.micro_step << '/'
            << p.use;
      }
    }
  }
  return out.str();
}

}  // namespace random_training
