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

Program program_of(zero::List<Compute> computes, std::size_t micro_steps = 1) {
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
  program.computes.erase_if([&](const Compute& c) { return c.unit == unit; });
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
/// Activations that are dropped after the first forward, where a program recomputes `segment`
/// units.
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
      zero::List<Compute> seen;
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
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      Setup setup = Setup{}.in(mode).on(2, stage.replicas);
      setup.options.programs = programs;
      for (const auto& [weights, bytes, allocated] :
           on_ranks(stage, setup, five_units(), sgd, [&](auto& module) {
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

/// Fractions that rounding would betray, whatever the order of computing.
float inexact(const Place& p) {
  return std::sin(
      static_cast<float>(p.rank * 7 + p.element * 3 + p.unit + 11 * p.micro_step + 5 * p.step));
}
/// Three steps that follow `program`, or the usual order where it is null.
template <class Module>
std::pair<Outcome, zero::Traffic> train_program(Module& module, zero::UserCode where,
                                                const Program* program, std::size_t micro_steps) {
  Outcome outcome;
  Plan plan;
  plan.gradient = inexact;
  module.initialize([](const auto&, std::size_t i) { return static_cast<float>(i); });
  for (std::size_t k = 0; k < 3; ++k) {
    auto step = module.begin_step({.micro_steps = micro_steps, .program = program});
    for (auto unit : step.pass()) {
      const Place place{module.mesh().world.rank(), k, unit.micro_step(), unit.index(), 0, 0};
      if (unit.is_backward()) add_gradient(module, where, unit, plan, place);
    }
    outcome.steps.push_back(step.finish({.max_norm = 3}));
  }
  module.synchronize();
  const zero::Traffic sent = module.sent();
  outcome.weights = weights_of(module);
  return {outcome, sent};
}

BOOST_AUTO_TEST_CASE(orders_with_the_same_mathematics_give_the_same_bits) {
  const std::vector<Program> programs{zero::training(units, 3), forwards_first(units, 3),
                                      interleaved(units, 3), rotated(units, 3),
                                      zero::recomputing(units, 3, 2)};
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      Setup setup = Setup{}.in(mode).on(2, stage.replicas);
      setup.options.programs = programs;
      for (const auto& outcomes : on_ranks(stage, setup, five_units(), sgd, [&](auto& module) {
             std::vector<Outcome> ends;
             ends.push_back(train_program(module, mode.user_code, nullptr, 3).first);
             for (const Program& program : programs) {
               ends.push_back(train_program(module, mode.user_code, &program, 1).first);
             }
             ends.push_back(train_program(module, mode.user_code, nullptr, 3).first);
             return ends;
           })) {
        for (std::size_t i = 1; i < outcomes.size(); ++i) {
          Outcome shifted = outcomes[i];
          for (zero::StepResult& step : shifted.steps) step.step -= static_cast<long>(3 * i);
          BOOST_TEST(same_bits(outcomes[0], shifted), stage << ", " << mode.name << ", " << i);
        }
      }
    }
  });
}

/// Gathers of each unit's group in one execution.
std::vector<std::size_t> gathers_of(const zero::Schedule& schedule) {
  std::vector<std::size_t> count(schedule.model.groups());
  for (const zero::Step& step : schedule.steps) count[step.subject] += step.op == Op::gather;
  return count;
}

// B75: what fill_recomputing documents, and what is sent is what the schedule says.
BOOST_AUTO_TEST_CASE(recomputation_gathers_a_unit_once_for_each_compute_that_is_not_a_turn) {
  using Whole = zero::Stage<zero::ShardOptimizer<>, zero::ShardGrads<>,
                            zero::ShardParams<zero::ParamsOptions{.keep_at_turn = 2}>>;
  const Program program = zero::recomputing(units, 1, 2);
  const zero::ModelShape shape(units);
  const std::vector<std::size_t> plain{2, 2, 2, 2, 1}, again{3, 2, 3, 2, 1};
  const std::vector<std::size_t> kept{2, 2, 2, 2, 1};
  BOOST_TEST(gathers_of(zero::make_schedule<zero::Zero3>(shape, zero::training(units))) == plain);
  BOOST_TEST(gathers_of(zero::make_schedule<zero::Zero3>(shape, program)) == again);
  BOOST_TEST(gathers_of(zero::make_schedule<Whole>(shape, program)) == kept);
  Setup setup = Setup{}.on(3);  // of unit.2's 7 elements no rank has a full part: padding
  setup.options.programs = {&program, 1};
  for (const auto& [sent, predicted, once] :
       on_ranks<zero::Zero3>(setup, five_units(), sgd, [&](auto& module) {
         const std::uint64_t before = module.sent().all_gather;
         const zero::Traffic after =
             train_program(module, zero::UserCode::on_caller, &program, 1).second;
         return std::tuple(after.all_gather - before,
                           3 * module.predicted_bytes_sent(program).all_gather,
                           3 * module.predicted_bytes_sent().all_gather);
       })) {
    const std::uint64_t compare = 2 * sizeof(std::uint64_t);  // of the program, once
    BOOST_TEST(sent == predicted + compare);
    BOOST_TEST(predicted == once / 9 * 11);
  }
}

// B75: a unit that recomputes within its own backward needs no more than one gather for both.
BOOST_AUTO_TEST_CASE(recomputation_within_a_backward_scope_gathers_nothing) {
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const auto& [first, second, right] :
         on_ranks(stage, Setup{}.on(2, stage.replicas), five_units(), sgd, [](auto& module) {
           std::uint64_t sent[2] = {};
           bool right = true;
           for (const bool recomputes : {false, true}) {
             module.synchronize();
             const std::uint64_t before = module.sent().all_gather;
             auto step = module.begin_step();
             for (auto unit : step.forward()) (void)unit;
             for (auto unit : step.backward()) {
               const auto forward = recomputes ? unit.template weights<Parts>() : Parts<float>{};
               const auto w = unit.template weights<Parts>();
               for (std::size_t i = 0; i < forward.a.size(); ++i) right &= forward.a[i] == w.a[i];
               for (float& g : unit.template gradients<Parts>().a) g += 1;
             }
             right &= module.gathered_bytes() == 0;
             (void)step.finish();
             module.synchronize();
             sent[recomputes] = module.sent().all_gather - before;
           }
           return std::tuple(sent[0], sent[1], right);
         })) {
      BOOST_TEST(first == second, stage);
      BOOST_TEST(right, stage);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_program_that_cannot_run_is_refused_and_the_module_goes_on) {
  const Model model = five_units();
  Program many = zero::recomputing(units, 2, 1), twice = shared(units, 1);
  std::vector<std::pair<Program, const char*>> wrong{
      {program_of({{Op::forward, 7, 0}}), "the model has no such unit"},
      {program_of({{Op::forward, 0, 1}}), "has no such micro-step"},
      {program_of({{Op::gather, 0, 0}}), "consists of forward and backward"},
      {program_of({{Op{200}, 0, 0}}), "consists of forward and backward"},
      {program_of({}), "has no computes"},
      {program_of({{Op::backward, 0, 0}}), "its forward does not come before it"},
      {program_of({{Op::forward, 0, 0}, {Op::backward, 0, 0}, {Op::backward, 0, 0}}),
       "it has come already"},
      {program_of({{Op::forward, 0, 0}, {Op::backward, 0, 0}, {Op::forward, 0, 0}}),
       "its backward has come already"},
      {program_of({{Op::forward, 0, 0}}, 2), "the computes of only 1"},
      {zero::training(units, 4), "4 micro-steps, expected 1 to 2"},
      {zero::evaluation(units), "does not update"},
      {many, "needs more computes than the module has reserved"},
      {twice, "needs more uses of one unit"}};
  const std::string bad = error_of([&] {
    Setup setup;
    setup.options.programs = {&wrong[0].first, 1};
    (void)on_ranks<zero::Zero3>(setup, model, sgd, [](auto&) { return 0; });
  });
  BOOST_TEST(says(bad, {"ContractError: zero: ModuleOptions::programs", "no such unit"}), bad);
  Setup setup = Setup{}.on(2);
  setup.options.max_micro_steps = 2;
  for (const auto& [texts, after] : on_ranks<zero::Zero3>(setup, model, sgd, [&](auto& module) {
         std::vector<std::string> said;
         for (const auto& [program, text] : wrong) {
           said.push_back(error_of([&] { (void)module.begin_step({.program = &program}); }));
         }
         const Program pass = zero::training(units);
         said.push_back(error_of([&] { (void)module.evaluate({.program = &pass}); }));
         return std::pair(said, train(module, zero::UserCode::on_caller, {}));
       })) {
    for (std::size_t i = 0; i < wrong.size(); ++i) {
      BOOST_TEST(says(texts[i], {"ContractError: zero: begin_step: ", wrong[i].second}), texts[i]);
    }
    BOOST_TEST(says(texts.back(), {"ContractError: zero: evaluate: ", "begin_step"}), texts.back());
    BOOST_TEST(all_are(after.weights, -1));
  }
}

// What is left out of one pass only, in an order of the user's own, is found as in the usual one.
BOOST_AUTO_TEST_CASE(a_unit_in_one_pass_only_is_named_in_any_order) {
  const Program program = interleaved(units, 2);
  for (const std::string& text :
       on_ranks<zero::Zero3>(Setup{}, five_units(), sgd, [&](auto& module) {
         return error_of([&] {
           auto step = module.begin_step({.program = &program});
           for (auto unit : step.pass()) {
             if (unit.index() == 3 && unit.micro_step() == 1 && !unit.is_backward()) unit.skip();
           }
           (void)step.finish();
         });
       })) {
    BOOST_TEST(says(text, {"in micro-step 1 unit 'unit.3' ran backward but not forward"}), text);
  }
  for (const auto& [text, applied] :
       on_ranks<zero::Zero3>(Setup{}, five_units(), sgd, [&](auto& module) {
         auto step = module.begin_step({.program = &program});
         for (auto unit : step.forward()) (void)unit;  // of micro-step 0
         for (auto unit : step.forward()) (void)unit;  // of micro-step 1
         (void)step.backward(4);
         // Backwards of micro-step 0 would be passed over.
         const std::string said = error_of([&] {
           (void)step.backward(3);
           (void)step.backward(4);
         });
         for (auto unit : step.backward()) (void)unit;
         for (auto unit : step.backward()) (void)unit;
         return std::pair(said, step.finish().applied);
       })) {
    BOOST_TEST(says(text, {"backward of unit 'unit.4' in micro-step 1 came",
                           "in micro-step 0 unit 'unit.2' ran forward but not backward"}),
               text);
    BOOST_TEST(applied);
  }
}

// B57 B101: an error on every rank that names the difference, and the ranks go on.
BOOST_AUTO_TEST_CASE(ranks_with_different_programs_learn_which_compute_differs) {
  const Program orders[] = {rotated(units, 2), interleaved(units, 2)};
  const Program prefix = [] {
    Program made = zero::evaluation(units);
    made.computes.resize(2);
    return made;
  }();
  const Program whole = zero::evaluation(units);
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : tried_modes()) {
      const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
      for (const auto& [step, pass, weights] :
           on_ranks(stage, setup, five_units(), sgd, [&](auto& module) {
             const std::size_t rank = module.mesh().world.rank();
             const auto in_step =
                 error_of([&] { (void)module.begin_step({.program = &orders[rank]}); });
             const auto in_pass = error_of(
                 [&] { (void)module.evaluate({.program = rank == 0 ? &prefix : &whole}); });
             (void)train_program(module, mode.user_code, &orders[1], 1);
             return std::tuple(in_step, in_pass, train(module, mode.user_code, {}).weights);
           })) {
        BOOST_TEST(says(step, {"ContractError: zero: begin_step: the ranks gave different programs",
                               "compute 0 is forward of unit 'unit.1' in micro-step 0 on rank 0",
                               "forward of unit 'unit.0' in micro-step 0 on rank 1"}),
                   stage << ", " << mode.name << ": " << step);
        BOOST_TEST(
            says(pass, {"ContractError: zero: evaluate: ", "compute 2 is nothing on rank 0"}),
            pass);
        BOOST_TEST(all_are(weights, -1), stage << ", " << mode.name);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_rank_that_alone_follows_a_program_is_an_error_on_all) {
  const Program program = rotated(units, 1);
  for_each_stage(2, [&](const NamedStage& stage) {
    for (const Mode& mode : {modes()[0], modes()[1], modes()[5]}) {
      const Setup setup = Setup{}.in(mode).on(2, stage.replicas);
      std::vector<std::string> texts(2);
      // With replicas the ranks wait for each other on different communicators.
      on_threads(
          2, std::chrono::milliseconds(stage.replicas == 1 ? 10'000 : 500),
          [&](zero::ThreadCommunicator& comm) {
            texts[comm.rank()] = error_of([&] {
              auto module =
                  shard(stage, five_units(), zero::mesh(comm, stage.replicas), sgd, setup.options);
              (void)train_program(module, mode.user_code, comm.rank() == 0 ? &program : nullptr, 1);
            });
          });
      for (const std::string& text : texts) {
        BOOST_TEST(
            says(text,
                 {stage.replicas == 1 ? "CommunicatorError: " : "TimeoutError: ", "unit",
                  "\n  rank 0: ", "a new program of begin_step at 0 (not done)", "\n  rank 1: "}),
            stage << ", " << mode.name << ": " << text);
      }
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
