// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Steps that follow programs of the user's own: any order, shared weights, recomputation.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "harness.hpp"

BOOST_AUTO_TEST_SUITE(programs_test)

using namespace harness;
using zero::Compute;
using zero::Index;
using zero::Op;
using zero::Program;

const zero::Sgd sgd{.learning_rate = 1};

Program program_of(std::vector<Compute> computes, std::size_t micro_steps = 1) {
  return {std::move(computes), micro_steps, true};
}
/// All forwards, then all backwards.
Program forwards_first(std::size_t units, std::size_t micro_steps) {
  Program program = zero::training(units, micro_steps);
  std::stable_sort(program.computes.begin(), program.computes.end(),
                   [](const Compute& a, const Compute& b) { return a.op < b.op; });
  return program;
}
/// Each backward pass but the last is followed by the forward pass after the next one.
Program interleaved(std::size_t units, std::size_t micro_steps) {
  const Program plain = zero::training(units, micro_steps);
  Program program = program_of({}, micro_steps);
  const auto add = [&](Op op, std::size_t m) {
    for (const Compute& c : plain.computes) {
      if (c.op == op && c.micro_step == m) program.computes.push_back(c);
    }
  };
  add(Op::forward, 0);
  for (std::size_t m = 0; m < micro_steps; ++m) {
    if (m + 1 < micro_steps) add(Op::forward, m + 1);
    add(Op::backward, m);
  }
  return program;
}
Program rotated(std::size_t units, std::size_t micro_steps) {
  Program program = zero::training(units, micro_steps);
  for (Compute& c : program.computes) c.unit = static_cast<Index>((c.unit + 1) % units);
  return program;
}
/// The units in order, but the middle one three times in each pass.
Program shared(std::size_t units, std::size_t micro_steps) {
  Program program = program_of({}, micro_steps);
  for (const Compute& c : zero::training(units, micro_steps).computes) {
    const std::size_t times = c.unit == units / 2 ? 3 : 1;
    for (std::size_t i = 0; i < times; ++i) {
      const std::size_t use = c.op == Op::forward ? i : times - 1 - i;
      program.computes.push_back({c.op, c.unit, c.micro_step, static_cast<Index>(use)});
    }
  }
  return program;
}
/// Without one unit.
Program without(std::size_t unit, Program program) {
  std::erase_if(program.computes, [&](const Compute& c) { return c.unit == unit; });
  return program;
}

/// A chain of units whose gradients depend on everything that came before: what flows forward and
/// backward in each micro-step, and what each use of a unit keeps. All values are small integers.
class Chain {
 public:
  explicit Chain(const Program& program) {
    const std::size_t uses = zero::uses(program);
    kept_.assign(program.micro_steps, std::vector<std::vector<float>>(100));
    for (auto& units : kept_) {
      for (auto& unit : units) unit.assign(uses, std::numeric_limits<float>::quiet_NaN());
    }
    forward_.assign(program.micro_steps, 0);
    backward_.assign(program.micro_steps, 0);
  }
  /// `dropped`: the activations will be recomputed from those of the unit where a segment begins.
  void forward(const Compute& c, float weight, std::size_t rank, bool again, bool dropped) {
    float& x = forward_[c.micro_step];
    float& kept = kept_[c.micro_step][c.unit][c.use];
    if (again && !std::isnan(kept)) x = kept;  // a segment begins
    kept = x;
    const float y = std::fmod(3 * x + weight + static_cast<float>(c.micro_step + rank), 11.0F);
    if (dropped) kept = std::numeric_limits<float>::quiet_NaN();
    x = y;
  }
  /// The gradient of element 0; that of element e is larger by e.
  float backward(const Compute& c, float weight) {
    float& d = backward_[c.micro_step];
    const float kept = kept_[c.micro_step][c.unit][c.use];
    d = std::fmod(2 * d + kept + weight, 7.0F);
    return d + kept;
  }

 private:
  std::vector<std::vector<std::vector<float>>> kept_;  // [micro-step][unit][use]
  std::vector<float> forward_, backward_;              // [micro-step]
};
/// Of the five weights at `a` and the two at `b`.
float digest(const float* a, const float* b) {
  return std::fmod(std::accumulate(a, a + 5, 0.0F) + std::accumulate(b, b + 2, 0.0F), 5.0F);
}
/// Activations that are dropped after the first forward, where a program recomputes `segment` units.
bool drops(const Compute& c, std::size_t units, std::size_t segment) {
  return segment != 0 && c.unit % segment != 0 && c.unit < (units - 1) / segment * segment;
}

struct Case {
  const char* name;
  Program program;
  std::size_t segment = 0;
};
constexpr std::size_t units = 5;
Model five_units() { return model_of({"unit", units, sizes({5, 2})}); }

/// Weights of all units after `steps` steps on `ranks` ranks, by a loop that knows no shards.
std::vector<float> unsharded(const Case& c, std::size_t ranks, std::size_t steps) {
  std::vector<std::vector<float>> weights(units, std::vector<float>(7, 1.0F));
  for (std::size_t k = 0; k < steps; ++k) {
    std::vector<std::vector<float>> gradients(units, std::vector<float>(7, 0.0F));
    for (std::size_t r = 0; r < ranks; ++r) {
      Chain chain(c.program);
      std::vector<Compute> seen;
      for (const Compute& now : c.program.computes) {
        const float w = digest(weights[now.unit].data(), weights[now.unit].data() + 5);
        if (now.op == Op::forward) {
          const bool again = std::find(seen.begin(), seen.end(), now) != seen.end();
          chain.forward(now, w, r, again, !again && drops(now, units, c.segment));
        } else {
          const float g = chain.backward(now, w);
          for (std::size_t e = 0; e < 7; ++e) gradients[now.unit][e] += g + static_cast<float>(e);
        }
        seen.push_back(now);
      }
    }
    for (std::size_t u = 0; u < units; ++u) {
      for (std::size_t e = 0; e < 7; ++e) weights[u][e] -= gradients[u][e];
    }
  }
  std::vector<float> all;
  for (const auto& unit : weights) all.insert(all.end(), unit.begin(), unit.end());
  return all;
}

/// One step of a module that follows a program. The chain lives until streams are done with it.
template <class Module>
zero::StepResult run_chain(Module& module, zero::UserCode where, const Case& c, Chain& chain) {
  auto step = module.begin_step({.program = &c.program});
  const std::size_t rank = module.mesh().world.rank();
  for (auto unit : step.pass()) {
    const Compute now{unit.op(), static_cast<Index>(unit.index()),
                      static_cast<Index>(unit.micro_step()), static_cast<Index>(unit.use())};
    const auto w = unit.template weights<Parts>();
    if (!unit.is_backward()) {
      const bool again = unit.recomputes();
      compute(where, unit, [&chain, w, now, rank, again, &c] {
        chain.forward(now, digest(w.a.data(), w.b.data()), rank, again,
                      !again && drops(now, units, c.segment));
      });
    } else {
      const auto g = unit.template gradients<Parts>();
      compute(where, unit, [&chain, w, g, now] {
        const float d = chain.backward(now, digest(w.a.data(), w.b.data()));
        for (std::size_t e = 0; e < 7; ++e) {
          (e < 5 ? g.a[e] : g.b[e - 5]) += d + static_cast<float>(e);
        }
      });
    }
  }
  return step.finish({.divisor = 1});
}

std::vector<Case> cases() {
  return {{"usual", zero::training(units, 2)},
          {"forwards first", forwards_first(units, 3)},
          {"interleaved", interleaved(units, 4)},
          {"rotated", rotated(units, 2)},
          {"shared weights", shared(units, 2)},
          {"without a unit", without(2, zero::training(units, 2))},
          {"segments of 1", zero::recomputing(units, 2, 1), 1},
          {"segments of 2", zero::recomputing(units, 2, 2), 2},
          {"segments of 3", zero::recomputing(units, 1, 3), 3}};
}

BOOST_AUTO_TEST_CASE(every_program_trains_as_a_loop_without_shards_does) {
  const std::vector<Case> all = cases();
  std::vector<Program> programs;
  std::vector<std::vector<float>> expected;
  for (const Case& c : all) {
    programs.push_back(c.program);
    expected.push_back(unsharded(c, 2, 3));
  }
  for_each_stage(2, [&]<class Stage>(const char* stage, std::size_t replicas) {
    for (const Mode& mode : modes()) {
      Setup setup = Setup{}.in(mode).on(2, replicas);
      setup.options.programs = programs;
      for (const auto& [weights, bytes, allocated] :
           on_ranks<Stage>(setup, five_units(), sgd, [&](auto& module) {
             std::vector<std::vector<float>> ends;
             std::size_t gathered = 0;
             for (const Case& c : all) {
               std::vector<Chain> chains(3, Chain(c.program));
               module.initialize([](const auto&, std::size_t) { return 1.0F; });
               for (Chain& chain : chains) {
                 (void)run_chain(module, mode.user_code, c, chain);
                 module.synchronize();
                 gathered += module.gathered_bytes();
               }
               ends.push_back(weights_of(module));
             }
             return std::tuple(ends, gathered,
                               module.bytes_held() == module.predicted_bytes_held());
           })) {
        BOOST_TEST(bytes == 0U, stage << ", " << mode.name);
        BOOST_TEST(allocated, stage << ": bytes held are not those predicted");
        for (std::size_t i = 0; i < all.size(); ++i) {
          BOOST_TEST(same_bits(weights[i], expected[i]),
                     stage << ", " << mode.name << ", " << all[i].name);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
