// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Runs a random_training::Case on rank threads, and says how it differs from the reference.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "random_reference.hpp"

namespace random_training {

/// What a rank saw of each event, and what it has at the end.
struct RankOutcome {
  std::vector<Seen> seen;
  std::vector<std::vector<float>> w, m;  // [tensor]
  std::size_t gathered_bytes = 0;
  bool bytes_are_predicted = false;
};

/// One rank in one phase.
template <class Module>
class Rank {
 public:
  Rank(Module& module, const Case& c, std::size_t phase, std::size_t thread, RankOutcome& outcome)
      : module_(module),
        case_(c),
        user_code_(c.phases[phase].setup.options.user_code),
        thread_(thread),
        begin_(c.begin_of(phase)),
        end_(c.begin_of(phase + 1)),
        outcome_(outcome) {
    outcome_.seen.resize(c.events.size());
  }

  void run() {
    for (event_ = begin_; event_ < end_; ++event_) run(case_.events[event_]);
    take_result();
    module_.synchronize();
    outcome_.gathered_bytes = module_.gathered_bytes();
    outcome_.bytes_are_predicted = module_.bytes_held() == module_.predicted_bytes_held();
  }

 private:
  using Parts = harness::Parts<float>;

  void run(const Event& e) {
    outcome_.seen[event_].weights.resize(
        e.what == What::write || e.what == What::freeze ? 0 : case_.places());
    if (e.what == What::freeze) return module_.set_frozen(e.name, e.fixed);
    if (e.what == What::write) return write(e);
    if (e.what == What::evaluate) {
      auto pass = module_.evaluate();
      for (auto unit : pass.forward()) compute(e, unit);
      return;
    }
    try {
      step(e);
    } catch (const std::runtime_error& error) {
      if (std::string(error.what()) != "left") throw;
    }
  }
  void write(const Event& e) {
    std::vector<float> values(module_.parameters().find(e.name).shape.elements());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = case_.written(e, i);
    module_.write_weights(e.name, values);
  }
  void step(const Event& e) {
    const zero::Program* const program = e.program ? &case_.programs[*e.program] : nullptr;
    auto step =
        module_.begin_step({.micro_steps = program ? 1 : e.micro_steps, .program = program});
    scale_ = step.loss_scale();
    left_ = e.what == What::leave ? e.leaves_after : std::numeric_limits<std::size_t>::max();
    if (!passes(e, step)) return;
    take_result();
    const zero::FinishOptions options{.divisor = e.divisor, .max_norm = e.max_norm};
    if (e.waits) {
      outcome_.seen[event_].result = step.finish(options);
    } else {
      step.finish_async(options);
      waiting_ = event_;
    }
  }
  void take_result() {
    if (waiting_) outcome_.seen[*waiting_].result = module_.last_result();
    waiting_.reset();
  }
  /// False if the step is to be left here.
  template <class Step>
  bool passes(const Event& e, Step& step) {
    if (e.loop == Loop::own) {
      for (const zero::Compute& c : case_.program_of(e).computes) {
        if (!e.runs(c.unit, c.micro_step) && !e.program) continue;
        auto unit = c.op == zero::Op::forward ? step.forward(c.unit) : step.backward(c.unit);
        if (!compute(e, unit)) return false;
      }
    } else if (e.loop == Loop::pass || e.program) {
      for (auto unit : step.pass()) {
        if (!compute(e, unit)) return false;
      }
    } else {
      for (std::size_t m = 0; m < e.micro_steps; ++m) {
        for (auto unit : step.forward()) {
          if (!compute(e, unit)) return false;
        }
        for (auto unit : step.backward()) {
          if (!compute(e, unit)) return false;
        }
      }
    }
    return e.what != What::leave;
  }
  template <class Unit>
  bool compute(const Event& e, Unit& unit) {
    if (e.what == What::leave && left_-- == 0) {
      if (e.throws) throw std::runtime_error("left");
      return false;
    }
    if (e.what != What::evaluate && !e.runs(unit.index(), unit.micro_step())) {
      unit.skip();
      return true;
    }
    const UnitFacts& facts = case_.units[unit.index()];
    Spot spot{thread_, unit.micro_step(), unit.use(), unit.index(), 0, 0, 0};
    std::uint64_t* const seen =
        &outcome_.seen[event_]
             .weights[case_.place(unit.op(), spot.unit, spot.micro_step, spot.use)];
    if (facts.shows.empty()) *seen = 1;
    std::vector<decltype(unit.template weights<harness::Parts>())> shown;
    for (const std::size_t u : facts.shows) {
      shown.push_back(unit.template weights<harness::Parts>(case_.units[u].name));
    }
    if (!shown.empty()) on_stream(unit, [shown, seen] { look(shown, *seen); });
    if (!unit.is_backward()) return true;
    static constexpr zero::Tensor<float> Parts::*members[] = {&Parts::a, &Parts::b, &Parts::c,
                                                              &Parts::d};
    for (std::size_t t = 0; t < most_tensors && facts.shows.size() == 1; ++t) {
      if (!e.touches(spot.unit, spot.micro_step, t)) unit.no_gradient(members[t]);
    }
    for (std::size_t k = 0; k < shown.size(); ++k) {
      spot.of = facts.shows[k];
      const auto g = unit.template gradients<harness::Parts>(case_.units[spot.of].name);
      on_stream(unit, [w = shown[k], g, spot, &e, &c = case_, scale = scale_] {
        add(c, e, w, g, spot, scale);
      });
    }
    return true;
  }
  template <class Shown>
  static void look(const Shown& shown, std::uint64_t& seen) {
    std::uint64_t now = 1;
    std::size_t nth = 0;
    for (const auto& w : shown) {
      for (std::size_t t = 0; t < most_tensors; ++t, ++nth) {
        for (std::size_t i = 0; i < w[t].size(); ++i) {
          now = digest(now, nth, i, zero::to_float(w[t][i]));
        }
      }
    }
    seen = seen == 0 || seen == now ? now : 2;  // a recomputation sees the same
  }
  template <class Weights, class Gradients>
  static void add(const Case& c, const Event& e, const Weights& w, const Gradients& g, Spot s,
                  float scale) {
    for (s.tensor = 0; s.tensor < most_tensors; ++s.tensor) {
      if (!c.touches(e, s.unit, s.micro_step, s.tensor)) continue;
      for (s.element = 0; s.element < g[s.tensor].size(); ++s.element) {
        auto& to = g[s.tensor][s.element];
        const float weight = zero::to_float(w[s.tensor][s.element]);
        const float more =
            e.breaks && s == e.broken ? e.broken_value : e.gradient(s, weight, c.most) * scale;
        to = std::decay_t<decltype(to)>(zero::to_float(to) + more);
      }
    }
  }
  template <class Unit, class F>
  void on_stream(Unit& unit, F code) {
    harness::compute(user_code_, unit, std::move(code));
  }

  Module& module_;
  const Case& case_;
  zero::UserCode user_code_;
  std::size_t thread_, begin_, end_, event_ = 0, left_ = 0;
  float scale_ = 1;
  std::optional<std::size_t> waiting_{};
  RankOutcome& outcome_;
};

/// How a rank differs from the reference in a phase; empty if it does not.
inline std::string difference(const Case& c, const Reference& reference, std::size_t phase,
                              const RankOutcome& rank, std::size_t copy) {
  std::ostringstream out;
  for (std::size_t k = c.begin_of(phase); k < c.begin_of(phase + 1); ++k) {
    const Seen &here = rank.seen[k], &there = reference.seen(copy)[k];
    for (std::size_t i = 0; i < here.weights.size(); ++i) {
      if (here.weights[i] == there.weights[i]) continue;
      if (here.weights[i] == 0 && c.events[k].what == What::leave) continue;
      out << "event " << k << ", compute " << i << ": other weights; ";
      break;
    }
    if (here.result.has_value() != there.result.has_value())
      out << "event " << k << ": no result; ";
    if (!here.result || !there.result) continue;
    const zero::StepResult &a = *here.result, &b = *there.result;
    if (a.applied != b.applied || a.step != b.step || a.loss_scale != b.loss_scale ||
        (b.applied && !harness::same_bits(a.norm, b.norm))) {
      out << "event " << k << ": applied " << a.applied << ", step " << a.step << ", scale "
          << a.loss_scale << ", norm " << a.norm << " instead of " << b.applied << ", " << b.step
          << ", " << b.loss_scale << ", " << b.norm << "; ";
    }
  }
  for (std::size_t t = 0; t < rank.w.size(); ++t) {
    const Reference::Tensor& tensor = reference.tensors()[t];
    if (!harness::same_bits(rank.w[t], tensor.w[copy]))
      out << "other weights " << tensor.name << "; ";
    if (!harness::same_bits(rank.m[t], tensor.m[copy]))
      out << "other state of " << tensor.name << "; ";
  }
  if (rank.gathered_bytes != 0) out << rank.gathered_bytes << " bytes stay gathered; ";
  if (!rank.bytes_are_predicted) out << "bytes held are not those predicted; ";
  return out.str();
}

/// Runs all phases in modules of type T. Between two, `keep(module)` and, in a new module on the
/// next mesh, `bring_back(module)`. What a rank does differently from the reference, or nothing.
template <class T, class Keep, class BringBack>
std::string train(const Case& c, const Reference& reference, Keep keep, BringBack bring_back) {
  std::size_t most = 0;
  for (const Phase& phase : c.phases) most = std::max(most, phase.setup.threads());
  std::vector<std::string> texts(most);
  std::vector<RankOutcome> outcomes(most);
  for (std::size_t p = 0; p < c.phases.size(); ++p) {
    harness::Setup setup = c.phases[p].setup;
    setup.options.programs = c.programs;
    harness::on_threads(setup.threads(), setup.options.time_limit, [&](auto& comm) {
      const zero::Sgd rest{
          .learning_rate = Case::rate, .momentum = c.momentum, .weight_decay = Case::decay};
      zero::Sgd of_q = rest;
      of_q.learning_rate = Case::rate_of_q;
      std::vector<zero::Group<zero::Sgd>> by_name;
      if (c.has_q()) by_name.push_back({"q*", of_q});
      auto module = harness::shard<T>(
          c.phases[p].stage, harness::model_of(c.lists[0], c.lists[1], c.lists[2], c.lists[3]),
          harness::mesh_of(setup, comm), zero::groups(rest, by_name), setup.options, c.types);
      RankOutcome outcome;
      const std::size_t rank = comm.rank(), copy = rank % c.copies();
      if (p == 0) {
        module.initialize([&](const zero::TensorInfo& tensor, std::size_t element) {
          return c.initial(copy, tensor.name, element);
        });
      } else {
        for (std::size_t t = 0; t < reference.tensors().size(); ++t) {
          module.set_frozen(reference.tensors()[t].name, reference.frozen(p)[t]);
        }
        bring_back(module);
      }
      Rank(module, c, p, rank, outcome).run();
      if (p + 1 < c.phases.size()) {
        keep(module);
      } else {
        for (const Reference::Tensor& tensor : reference.tensors()) {
          module.read_weights(tensor.name, outcome.w.emplace_back(tensor.w[0].size()));
          std::vector<float>& m = outcome.m.emplace_back(tensor.w[0].size());
          if (!tensor.frozen) module.read_state(tensor.name, 0, m);
        }
      }
      outcomes[rank] = std::move(outcome);
    });
    for (std::size_t r = 0; r < setup.threads(); ++r) {
      const std::string text = difference(c, reference, p, outcomes[r], r % c.copies());
      if (!text.empty()) {
        return "phase " + std::to_string(p) + ", rank " + std::to_string(r) + ": " + text;
      }
    }
  }
  return {};
}
/// The same with modules of the case's types.
template <class Keep, class BringBack>
std::string train_case(const Case& c, const Reference& reference, Keep keep, BringBack bring_back) {
  using NarrowSums =
      zero::WithPrecision<Precision{.compute = DataType::bf16, .accumulate = DataType::bf16}>;
  try {
    if (c.types.compute == DataType::fp32) return train<float>(c, reference, keep, bring_back);
    if (c.types.accumulate == DataType::fp32)
      return train<zero::bf16>(c, reference, keep, bring_back);
    return train<NarrowSums>(c, reference, keep, bring_back);
  } catch (const std::exception& error) { return error.what(); }
}

/// Which seeds to try: those that the environment variable `name` says, as "FIRST COUNT", or the
/// first ones.
struct Seeds {
  std::size_t first = 1, count;
  Seeds(const char* name, std::size_t usual) : count((usual + share - 1) / share) {
    if (const char* const asked = std::getenv(name)) std::istringstream(asked) >> first >> count;
  }
};

}  // namespace random_training
