// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Breaks schedules in many ways. The rules must reject what matters, their verdict on races must
// equal a closure of happens-before, and what they accept must be right in simulated orders.
#include <boost/test/unit_test.hpp>
#include <map>
#include <string>
#include <zero/schedule/verify.hpp>

#include "simulate.hpp"
#include "stages.hpp"

BOOST_AUTO_TEST_SUITE(mutation_test)

using namespace tested;
using simulated::Outcome;
using simulated::Sharing;

/// Happens-before by closure over two executions: quadratic, and written from the definition.
bool races_by_closure(const Schedule& s) {
  const std::size_t n = s.steps.size(), all = 2 * n;
  std::vector<std::vector<char>> before(all, std::vector<char>(all, 0));  // [b][a]: a before b
  for (std::size_t b = 0; b < all; ++b) {
    const Step& step = s.steps[b % n];
    const auto follows = [&](std::size_t a) {
      before[b][a] = 1;
      for (std::size_t c = 0; c < a; ++c) before[b][c] |= before[a][c];
    };
    for (std::size_t a = b; a-- > 0;) {
      if (s.steps[a % n].stream == step.stream) {
        follows(a);
        break;
      }
    }
    for (const std::uint32_t w : step.waits) {
      if (w == no_wait) continue;
      if (w < b % n) follows(b - b % n + w);
      if (w >= b % n && b >= n) follows(w);
    }
  }
  for (std::size_t b = 0; b < all; ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      if (before[b][a] != 0) continue;
      for (const Access& x : s.steps[a % n]) {
        for (const Access& y : s.steps[b % n]) {
          const bool reads = x.mode == Mode::read && y.mode == Mode::read;
          if (x.space == y.space && x.index == y.index && !reads) return true;
        }
      }
    }
  }
  return false;
}
bool in_range(const Schedule& s) {
  for (const Step& step : s.steps) {
    for (const Access& a : step) {
      if (a.index >= extent(s, a.space)) return false;
    }
  }
  return true;
}

struct Tally {
  unsigned found = 0, made = 0, rejected = 0, unsound = 0, disagreed = 0;
};
std::map<std::string, Tally> tallies;

class Mutants {
 public:
  explicit Mutants(const Schedule& s)
      : s_(s), ref_(simulated::unsharded(s, simulated::world_of(s))) {}

  void make_all() {
    for (std::size_t i = 0; i < s_.steps.size(); ++i) {
      change_waits(i);
      drop_and_swap(i);
      change_operands(i);
    }
  }

 private:
  template <class F>
  void mutate(const std::string& kind, F change) {
    Schedule mutant = s_;
    change(mutant);
    if (mutant.steps != s_.steps) judge(kind, mutant);
  }
  template <class F>
  void mutate_and_find_waits(const std::string& kind, F change) {
    mutate(kind + " and find waits again", [&](Schedule& m) {
      change(m);
      find_waits(m);
    });
  }
  void judge(const std::string& kind, const Schedule& mutant) {
    Tally& tally = tallies[kind];
    if (++tally.found % share != 0) return;
    ++tally.made;
    const bool rejected = verify(mutant).rule != Rule::none;
    tally.rejected += rejected;
    if (in_range(mutant) && detail::check_waits(mutant).rule == Rule::none) {
      detail::Races races;
      const bool raced = races.check(mutant).rule != Rule::none;
      tally.disagreed += raced != races_by_closure(mutant);
    }
    for (unsigned seed = 0; seed < 30 && !rejected; ++seed) {
      const Sharing sharing = seed % 2 != 0 ? Sharing::in_order : Sharing::free;
      if (simulated::simulate(mutant, ref_, seed, sharing) == Outcome::correct) continue;
      ++tally.unsound;
      return;
    }
  }
  void change_waits(std::size_t i) {
    for (std::size_t t = 0; t < stream_count; ++t) {
      const std::uint32_t wait = s_.steps[i].waits[t];
      if (wait == no_wait) continue;
      const auto on_stream = [&](std::uint32_t w) {
        return s_.steps[w].stream == static_cast<StreamId>(t);
      };
      const auto wait_for = [&](Schedule& m, std::uint32_t w) {
        m.steps[w].signals = true;
        m.steps[i].waits[t] = w;
      };
      mutate("drop a wait", [&](Schedule& m) { m.steps[i].waits[t] = no_wait; });
      mutate("forget to signal", [&](Schedule& m) { m.steps[wait].signals = false; });
      mutate("wait for an earlier step", [&](Schedule& m) {
        for (std::uint32_t w = wait; w-- > 0;) {
          if (on_stream(w)) return wait_for(m, w);
        }
      });
      mutate("wait for a later step", [&](Schedule& m) {
        for (std::uint32_t w = wait + 1; w < m.steps.size(); ++w) {
          if (on_stream(w)) return wait_for(m, w);
        }
      });
    }
  }
  void drop_and_swap(std::size_t i) {
    const auto drop = [&](Schedule& m) {
      m.steps[i].op = Op::none;
      m.steps[i].access_count = 0;
      for (Access& a : m.steps[i].accesses) a = Access{};
    };
    const std::string kind = std::string("drop ") + info(s_.steps[i].op).name;
    mutate(kind, drop);
    mutate_and_find_waits(kind, drop);
    if (i + 1 == s_.steps.size()) return;
    const auto swap = [&](Schedule& m) {
      std::swap(m.steps[i], m.steps[i + 1]);
      for (Step& step : m.steps) {
        for (std::uint32_t& w : step.waits) {
          if (w == i || w == i + 1) w = static_cast<std::uint32_t>(2 * i + 1 - w);
        }
      }
    };
    mutate("swap two neighbours", swap);
    mutate_and_find_waits("swap two neighbours", swap);
  }
  void change_operands(std::size_t i) {
    const Step& step = s_.steps[i];
    for (std::size_t a = 0; a < step.access_count; ++a) {
      for (Index other = 0; other < extent(s_, step.accesses[a].space); ++other) {
        const auto move = [&](Schedule& m) { m.steps[i].accesses[a].index = other; };
        mutate("another slot or group", move);
        mutate_and_find_waits("another slot or group", move);
      }
      for (const Mode mode : {Mode::read, Mode::write, Mode::update}) {
        mutate("another mode", [&](Schedule& m) { m.steps[i].accesses[a].mode = mode; });
      }
    }
    for (std::size_t t = 0; t < stream_count; ++t) {
      mutate("another stream", [&](Schedule& m) { change_stream(m, i, t); });
    }
    for (Index other = 0; other < s_.model.groups(); ++other) {
      mutate("another subject", [&](Schedule& m) { m.steps[i].subject = other; });
    }
    for (Index other = 0; other < s_.program.micro_steps; ++other) {
      mutate("another micro-step", [&](Schedule& m) { m.steps[i].micro_step = other; });
    }
  }
  static void change_stream(Schedule& m, std::size_t i, std::size_t t) {
    m.steps[i].stream = static_cast<StreamId>(t);
    m.steps[i].waits[t] = no_wait;
    for (Step& step : m.steps) {
      for (std::size_t v = 0; v < stream_count; ++v) {
        if (step.waits[v] != i || v == t) continue;
        if (step.stream != static_cast<StreamId>(t)) {
          step.waits[t] = static_cast<std::uint32_t>(i);
        }
        step.waits[v] = no_wait;
      }
    }
  }

  const Schedule& s_;
  simulated::Reference ref_;
};

BOOST_AUTO_TEST_CASE(the_rules_reject_every_broken_schedule_and_accept_only_right_ones) {
  for_each_stage([]<class S>(const char*) {
    struct Case {
      ModelShape model;
      Program program;
    };
    for (const Case& c :
         {Case{ModelShape(1), training(1)}, Case{ModelShape(3), training(3, 2)},
          Case{transformer(2, true), training(4, 1)}, Case{two_groups(2), training(2, 2)},
          Case{half_frozen(3), evaluation(3)}, Case{ModelShape(2), forwards_first(2, 2)},
          Case{ModelShape(2), ping_pong(1)}, Case{ModelShape(3), recomputing(3, 1, 2)}}) {
      const Schedule s = make_schedule<S>(c.model, c.program);
      Mutants(s).make_all();
    }
  });
  unsigned made = 0;
  for (const auto& [kind, t] : tallies) {
    BOOST_TEST_MESSAGE(kind << ": " << t.made << " made, " << t.rejected << " rejected");
    made += t.made;
    BOOST_TEST(t.unsound == 0u, kind << ": accepted, but wrong in some order");
    BOOST_TEST(t.disagreed == 0u, kind << ": races and closure disagree");
    const bool must = kind.starts_with("drop ") || kind == "forget to signal" ||
                      kind == "wait for an earlier step";
    if (must) BOOST_TEST(t.rejected == t.made, kind << ": not all rejected");
  }
  BOOST_TEST_MESSAGE(made << " mutants");
  BOOST_TEST(made > 80000u / share);
}

BOOST_AUTO_TEST_SUITE_END()
