// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trainings drawn at random: model, mesh, stage, types, streams, and steps, evaluations and changes
// in any order. Each leaves the weights and state of a loop on one thread that knows no shards.
// ZERO_RANDOM_TRAININGS="FIRST COUNT" tries other seeds than the usual ones.
#include "random_training.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <stdexcept>

BOOST_AUTO_TEST_SUITE(random_training_test)

using namespace harness;
using namespace random_training;
using zero::DataType;
using zero::Precision;

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
const std::vector<NamedStage>& all_stages() {
  static const std::vector<NamedStage> all{named<zero::Ddp>("Ddp"),
                                           named<zero::Zero1>("Zero1"),
                                           named<zero::Zero2>("Zero2"),
                                           named<zero::Zero3>("Zero3"),
                                           named<Deep>("deep Zero3"),
                                           named<Late>("late Zero3"),
                                           named<Small>("Zero3, small units whole"),
                                           named<zero::HybridOf<zero::Ddp>>("hybrid Ddp"),
                                           named<zero::HybridOf<zero::Zero1>>("hybrid Zero1"),
                                           named<zero::HybridOf<zero::Zero2>>("hybrid Zero2"),
                                           named<zero::Hybrid>("hybrid"),
                                           named<zero::HybridOf<Late>>("late hybrid"),
                                           named<zero::Hpz>("hpZ")};
  return all;
}
constexpr std::size_t first_hybrid = 7;

void draw_model(Dice& dice, Case& c) {
  const char* const names[] = {"p", "q", "r", "s"};
  for (std::size_t i = 0; i < 3; ++i) {
    Units& list = c.lists[i];
    list.name = names[i];
    list.count = dice.of<std::size_t>({0, 1, 1, 2, 3});
    if (i == 2 && c.units.empty() && list.count == 0) list.count = 1;
    for (std::size_t t = 0; t < most_tensors; ++t) {
      list.config.shapes[t] = {dice.of<std::size_t>({0, 1, 2, 3, 5, 7, 16, 17, 31, 64, 65, 130})};
      if (dice.chance(15)) list.config = list.config.frozen({t});
      if (dice.chance(20)) list.config = list.config.no_decay({t});
    }
    list.stays_whole = dice.chance(10);
    for (std::size_t u = 0; u < list.count; ++u) {
      const std::string number = list.count == 1 ? "" : "." + std::to_string(u);
      c.units.push_back({list.name + number, c.units.size(), list.config});
    }
  }
  c.lists[3] = {.name = names[3], .count = dice.below(2)};
  if (c.lists[3].count == 0) return;
  UnitFacts bare{names[3], {}, {}};
  if (dice.chance(80)) {
    bare.parts = dice.below(c.units.size());
    c.lists[3].reads = {c.units[*bare.parts].name};
  }
  c.units.push_back(bare);
}

void draw_mesh(Dice& dice, Case& c) {
  c.setup.ranks = dice.of<std::size_t>({1, 2, 2, 3, 4, 4, 5, 6});
  const std::size_t stage = dice.below(all_stages().size());
  c.stage = all_stages()[stage];
  std::vector<std::size_t> divisors;
  for (std::size_t r = 1; r <= c.setup.ranks; ++r) {
    if (c.setup.ranks % r == 0) divisors.push_back(r);
  }
  if (stage >= first_hybrid) c.setup.replicas = divisors[dice.below(divisors.size())];
  if (c.setup.ranks <= 2 && dice.chance(25)) c.setup = c.setup.with_axes({2});
  const std::vector<Mode> some = tried_modes();
  c.setup = c.setup.in(some[dice.below(some.size())], dice.next() % 1000);
  c.setup.options.norm = dice.of({1.0, 2.0, 2.0, std::numeric_limits<double>::infinity()});
  c.setup.options.time_limit = std::chrono::seconds(30);
  c.setup.options.poison = dice.chance(75);
  c.setup.options.max_micro_steps = c.most_micro_steps;
}

void draw_types(Dice& dice, Case& c) {
  constexpr DataType bf = DataType::bf16, fp = DataType::fp16;
  const bool exact_averages = std::has_single_bit(c.setup.ranks);  // of fp16
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
  c.setup.options.loss_scale = c.loss_scale;
}

/// Units in any order, some twice, some recomputed, micro-steps that overlap.
zero::Program draw_program(Dice& dice, const Case& c) {
  zero::Program program{{}, 1 + dice.below(3), true};
  std::vector<std::vector<zero::Compute>> micro_steps(program.micro_steps);
  for (std::size_t m = 0; m < program.micro_steps; ++m) {
    std::vector<zero::Compute> forwards, backwards;
    for (std::size_t u = 0; u < c.units.size(); ++u) {
      const std::size_t uses = u == 0 ? 1 : dice.of<std::size_t>({0, 1, 1, 1, 2});
      for (std::size_t use = 0; use < uses; ++use) {
        forwards.push_back({zero::Op::forward, static_cast<zero::Index>(u),
                            static_cast<zero::Index>(m), static_cast<zero::Index>(use)});
        backwards.push_back(forwards.back());
        backwards.back().op = zero::Op::backward;
      }
    }
    dice.shuffle(forwards);
    if (dice.chance(70))
      dice.shuffle(backwards);
    else
      std::reverse(backwards.begin(), backwards.end());
    micro_steps[m] = forwards;
    for (zero::Compute b : backwards) {
      const zero::Compute again{zero::Op::forward, b.unit, b.micro_step, b.use};
      if (dice.chance(20)) micro_steps[m].push_back(again);
      micro_steps[m].push_back(b);
    }
    std::reverse(micro_steps[m].begin(), micro_steps[m].end());  // to be taken from the back
  }
  const bool overlap = dice.chance(50);
  for (std::size_t left = program.micro_steps; left > 0;) {
    std::size_t m = overlap ? dice.below(program.micro_steps) : program.micro_steps - left;
    if (micro_steps[m].empty()) continue;
    program.computes.push_back(micro_steps[m].back());
    micro_steps[m].pop_back();
    left -= micro_steps[m].empty();
  }
  return program;
}

Event draw_event(Dice& dice, const Case& c) {
  Event e;
  e.key = dice.next();
  e.units = c.units.size();
  const std::size_t what = dice.below(100);
  e.what = what < 65   ? What::step
           : what < 75 ? What::leave
           : what < 85 ? What::evaluate
           : what < 92 ? What::write
                       : What::freeze;
  std::vector<std::size_t> owners;
  for (std::size_t u = 0; u < c.units.size(); ++u) {
    if (c.units[u].parts == u) owners.push_back(u);
  }
  const std::string unit = c.units[owners[dice.below(owners.size())]].name;
  e.name = unit + "." + "abcd"[dice.below(most_tensors)];
  if (e.what == What::freeze && dice.chance(50)) e.name = unit.substr(0, 1) + ".*";
  e.fixed = dice.chance(50);
  e.loop = dice.of({Loop::ranges, Loop::own, Loop::pass});
  e.micro_steps = 1 + dice.below(c.most_micro_steps);
  if (dice.chance(40)) e.program = dice.below(c.programs.size());
  if (e.program) e.micro_steps = c.programs[*e.program].micro_steps;
  e.skipped = dice.of({0U, 0U, 20U, 60U});
  e.untouched = dice.of({0U, 0U, 20U});
  e.divisor = std::has_single_bit(c.setup.ranks) ? dice.of({0.0, 0.0, 1.0, 2.0, 4.0})
                                                 : dice.of({1.0, 2.0, 4.0});
  e.clip = dice.of({0.0, 0.0, 0.5, 0.25, 1.0, 2.0});
  e.waits = dice.chance(70);
  e.breaks = dice.chance(15);
  e.leaves_after = dice.below(c.program_of(e).computes.size() + 1);
  e.throws = dice.chance(50);
  return e;
}

Case draw(std::uint64_t seed) {
  Dice dice(seed);
  Case c;
  c.seed = seed;
  draw_model(dice, c);
  draw_mesh(dice, c);
  draw_types(dice, c);
  c.programs = {draw_program(dice, c), draw_program(dice, c)};
  c.setup.options.programs = c.programs;
  for (std::size_t k = 4 + dice.below(5); k-- > 0;) c.events.push_back(draw_event(dice, c));
  return c;
}

/// What a rank saw, and what it has at the end.
struct RankOutcome {
  std::vector<Seen> seen;
  std::vector<std::vector<float>> w, m;  // of each tensor
  std::size_t gathered_bytes = 0;
  bool bytes_are_predicted = false;
};

template <class Module>
class Rank {
 public:
  Rank(Module& module, const Case& c, const Reference& reference, std::size_t thread)
      : module_(module), case_(c), reference_(reference), thread_(thread) {}

  RankOutcome run() {
    module_.initialize([&](const zero::TensorInfo& tensor, std::size_t element) {
      return case_.initial(thread_ % case_.axes(), tensor.name, element);
    });
    outcome_.seen.resize(case_.events.size());
    for (event_ = 0; event_ < case_.events.size(); ++event_) run(case_.events[event_]);
    take_result();
    module_.synchronize();
    outcome_.gathered_bytes = module_.gathered_bytes();
    outcome_.bytes_are_predicted = module_.bytes_held() == module_.predicted_bytes_held();
    for (const Reference::Tensor& tensor : reference_.tensors()) {
      const std::size_t elements = tensor.w[0].size();
      module_.read_weights(tensor.name, outcome_.w.emplace_back(elements));
      std::vector<float>& m = outcome_.m.emplace_back(elements);
      if (!tensor.frozen) module_.read_state(tensor.name, 0, m);
    }
    return std::move(outcome_);
  }

 private:
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
    if (e.waits) {
      outcome_.seen[event_].result = step.finish(finish_of(e));
    } else {
      step.finish_async(finish_of(e));
      waiting_ = event_;
    }
  }
  static zero::FinishOptions finish_of(const Event& e) {
    return {.divisor = e.divisor, .max_norm = e.max_norm};
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
    const Spot spot{thread_, unit.micro_step(), unit.use(), unit.index(), 0, 0};
    std::uint64_t* const seen =
        &outcome_.seen[event_]
             .weights[case_.place(unit.op(), spot.unit, spot.micro_step, spot.use)];
    if (!has_parts(module_, spot.unit)) {
      *seen = 1;
      return true;
    }
    const auto w = unit.template weights<Parts>();
    on_stream(unit, [w, seen] { look(w, *seen); });
    if (!unit.is_backward()) return true;
    constexpr zero::Tensor<float> Parts<float>::*members[] = {&Parts<float>::a, &Parts<float>::b,
                                                              &Parts<float>::c, &Parts<float>::d};
    for (std::size_t t = 0; t < most_tensors; ++t) {
      if (!e.touches(spot.unit, spot.micro_step, t)) unit.no_gradient(members[t]);
    }
    const auto g = unit.template gradients<Parts>();
    on_stream(unit, [w, g, spot, &e, scale = scale_, most = case_.most] {
      add(e, w, g, spot, scale, most);
    });
    return true;
  }
  template <class Weights>
  static void look(const Weights& w, std::uint64_t& seen) {
    std::uint64_t now = 1;
    for (std::size_t t = 0; t < most_tensors; ++t) {
      for (std::size_t i = 0; i < w[t].size(); ++i)
        now = digest(now, t, i, zero::to_float(w[t][i]));
    }
    seen = seen == 0 || seen == now ? now : 2;  // a recomputation sees the same
  }
  template <class Weights, class Gradients>
  static void add(const Event& e, const Weights& w, const Gradients& g, Spot s, float scale,
                  int most) {
    for (s.tensor = 0; s.tensor < most_tensors; ++s.tensor) {
      if (!e.touches(s.unit, s.micro_step, s.tensor)) continue;
      for (s.element = 0; s.element < g[s.tensor].size(); ++s.element) {
        auto& to = g[s.tensor][s.element];
        const float more =
            e.breaks && s == e.broken
                ? e.broken_value
                : e.gradient(s, zero::to_float(w[s.tensor][s.element]), most) * scale;
        to = std::decay_t<decltype(to)>(zero::to_float(to) + more);
      }
    }
  }
  template <class Unit, class F>
  void on_stream(Unit& unit, F code) {
    harness::compute(case_.setup.options.user_code, unit, std::move(code));
  }

  Module& module_;
  const Case& case_;
  const Reference& reference_;
  std::size_t thread_, event_ = 0, left_ = 0;
  float scale_ = 1;
  std::optional<std::size_t> waiting_{};
  RankOutcome outcome_;
};

/// How a rank differs from the reference; empty if it does not.
std::string difference(const Case& c, const Reference& reference, const RankOutcome& rank,
                       std::size_t copy) {
  std::ostringstream out;
  for (std::size_t k = 0; k < c.events.size(); ++k) {
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
        (b.applied && !same_bits(a.norm, b.norm))) {
      out << "event " << k << ": applied " << a.applied << ", step " << a.step << ", scale "
          << a.loss_scale << ", norm " << a.norm << " instead of " << b.applied << ", " << b.step
          << ", " << b.loss_scale << ", " << b.norm << "; ";
    }
  }
  for (std::size_t t = 0; t < reference.tensors().size(); ++t) {
    const Reference::Tensor& tensor = reference.tensors()[t];
    if (!same_bits(rank.w[t], tensor.w[copy])) out << "other weights " << tensor.name << "; ";
    if (!same_bits(rank.m[t], tensor.m[copy])) out << "other state of " << tensor.name << "; ";
  }
  if (rank.gathered_bytes != 0) out << rank.gathered_bytes << " bytes stay gathered; ";
  if (!rank.bytes_are_predicted) out << "bytes held are not those predicted; ";
  return out.str();
}

template <class T>
std::string train(const Case& c, const Reference& reference) {
  std::vector<std::string> texts(c.setup.threads());
  on_threads(c.setup.threads(), c.setup.options.time_limit, [&](zero::ThreadCommunicator& comm) {
    const zero::Sgd rest{
        .learning_rate = Case::rate, .momentum = c.momentum, .weight_decay = Case::decay};
    zero::Sgd of_q = rest;
    of_q.learning_rate = Case::rate_of_q;
    std::vector<zero::Group<zero::Sgd>> of_q_by_name;
    if (c.has_q()) of_q_by_name.push_back({"q*", of_q});
    auto module = shard<T>(c.stage, model_of(c.lists[0], c.lists[1], c.lists[2], c.lists[3]),
                           mesh_of(c.setup, comm), zero::groups(rest, of_q_by_name),
                           c.setup.options, c.types);
    const RankOutcome outcome = Rank(module, c, reference, comm.rank()).run();
    texts[comm.rank()] = difference(c, reference, outcome, comm.rank() % c.axes());
  });
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (!texts[r].empty()) return "rank " + std::to_string(r) + ": " + texts[r];
  }
  return {};
}

std::string text(const Case& c) {
  std::ostringstream out;
  out << "seed " << c.seed << ": " << c.stage.name << " on " << c.setup.ranks << " ranks, "
      << c.setup.replicas << " replicas, " << c.axes() << " along an axis, types "
      << static_cast<int>(c.types.compute) << static_cast<int>(c.types.gather)
      << static_cast<int>(c.types.reduce) << static_cast<int>(c.types.accumulate) << ", streams "
      << static_cast<int>(c.setup.options.streams) << static_cast<int>(c.setup.options.user_code)
      << ", units";
  for (const UnitFacts& unit : c.units) out << ' ' << unit.name;
  out << ", events ";
  for (const Event& e : c.events) {
    out << "\n  "
        << "SLEWF"[static_cast<int>(e.what)];
    if (e.what == What::freeze) out << ' ' << e.name << ' ' << e.fixed;
    if (e.what == What::write) out << ' ' << e.name;
    if (e.what != What::step && e.what != What::leave) continue;
    out << " loop " << static_cast<int>(e.loop) << (e.program ? ", own program" : "")
        << ", micro-steps " << e.micro_steps << ", skipped " << e.skipped << ", untouched "
        << e.untouched << ", divisor " << e.divisor << ", clip " << e.clip
        << (e.waits ? "" : ", async") << (e.breaks ? ", breaks" : "");
    if (!e.program) continue;
    for (const zero::Compute& p : c.programs[*e.program].computes) {
      out << ' ' << "FB"[p.op == zero::Op::backward] << p.unit << '/' << p.micro_step << '/'
          << p.use;
    }
  }
  return out.str();
}

BOOST_AUTO_TEST_CASE(trainings_drawn_at_random_leave_what_one_thread_without_shards_leaves) {
  std::size_t first = 1, count = 300;
  if (const char* const asked = std::getenv("ZERO_RANDOM_TRAININGS")) {
    std::istringstream(asked) >> first >> count;
  }
  using NarrowSums =
      zero::WithPrecision<Precision{.compute = DataType::bf16, .accumulate = DataType::bf16}>;
  count = (count + share - 1) / share;
  for (std::size_t seed = first; seed < first + count; ++seed) {
    Case c = draw(seed);
    const Reference reference(c);
    std::string wrong;
    try {
      wrong = c.types.compute == DataType::fp32      ? train<float>(c, reference)
              : c.types.accumulate == DataType::fp32 ? train<zero::bf16>(c, reference)
                                                     : train<NarrowSums>(c, reference);
    } catch (const std::exception& error) { wrong = error.what(); }
    BOOST_CHECK_MESSAGE(wrong.empty(), text(c) << ": " << wrong);
  }
  std::cout << "zero-counted: " << count << " random trainings gave the bits of one thread\n";
}

BOOST_AUTO_TEST_SUITE_END()
