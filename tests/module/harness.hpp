// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trains small models whose sizes are run-time data, on rank threads. For the tests of module/.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#include <zero/zero.hpp>

#include "../share.hpp"

namespace harness {

// Kinds of units.

inline constexpr std::size_t most_tensors = 4;

/// Sizes and options of up to four tensors; those that are not named have no elements.
struct Config {
  std::array<zero::Shape, most_tensors> shapes{zero::Shape{0}, zero::Shape{0}, zero::Shape{0},
                                               zero::Shape{0}};
  std::array<zero::TensorOption, most_tensors> options{};

  Config frozen(std::initializer_list<std::size_t> which) const {
    Config made = *this;
    for (const std::size_t i : which) made.options[i] = made.options[i] | zero::frozen;
    return made;
  }
  Config no_decay(std::initializer_list<std::size_t> which) const {
    Config made = *this;
    for (const std::size_t i : which) made.options[i] = made.options[i] | zero::no_decay;
    return made;
  }
};
inline Config shapes(std::initializer_list<zero::Shape> shapes) {
  Config made;
  std::size_t i = 0;
  for (const zero::Shape& shape : shapes) made.shapes.at(i++) = shape;
  return made;
}
inline Config sizes(std::initializer_list<std::size_t> sizes) {
  Config made;
  std::size_t i = 0;
  for (const std::size_t size : sizes) made.shapes.at(i++) = {size};
  return made;
}

template <class T>
struct Parts {
  zero::Tensor<T> a, b, c, d;
  static constexpr auto tensors(const Config& x) {
    return zero::tensors(zero::tensor("a", &Parts::a, x.shapes[0], x.options[0]),
                         zero::tensor("b", &Parts::b, x.shapes[1], x.options[1]),
                         zero::tensor("c", &Parts::c, x.shapes[2], x.options[2]),
                         zero::tensor("d", &Parts::d, x.shapes[3], x.options[3]));
  }
  zero::Tensor<T> operator[](std::size_t i) const { return std::array{a, b, c, d}.at(i); }
};

/// A unit without tensors of its own.
template <class T>
struct Bare {
  static constexpr auto tensors(const Config&) { return zero::tensors(); }
};

// Models. All have one type, so that a test program instantiates one module for each stage.

struct Units {
  std::string name;
  std::size_t count = 0;
  Config config{};
  std::vector<std::string> reads{};
  bool stays_whole = false;
};
template <template <class> class Kind>
zero::UnitList<Kind, Config> list_of(const Units& units) {
  zero::UnitList<Kind, Config> list{units.name, units.count, units.count != 1, units.config};
  for (const std::string& other : units.reads) list = std::move(list).reads(other);
  if (units.stays_whole) list = std::move(list).stays_whole();
  return list;
}
/// Three lists of Parts, then one of Bare.
inline auto model_of(const Units& first, const Units& second = {}, const Units& third = {},
                     const Units& bare = {}) {
  return zero::model(list_of<Parts>(first), list_of<Parts>(second), list_of<Parts>(third),
                     list_of<Bare>(bare));
}
using Model = decltype(model_of({}));

// Ways to run.

struct Mode {
  const char* name;
  zero::StreamMode streams;
  zero::UserCode user_code;
};
inline const std::vector<Mode>& modes() {
  using zero::StreamMode, zero::UserCode;
  static const std::vector<Mode> all{
      {"inline", StreamMode::inline_run, UserCode::on_caller},
      {"asynchronous", StreamMode::asynchronous, UserCode::on_caller},
      {"shuffled", StreamMode::shuffled, UserCode::on_caller},
      {"inline, code on stream", StreamMode::inline_run, UserCode::on_stream},
      {"asynchronous, code on stream", StreamMode::asynchronous, UserCode::on_stream},
      {"shuffled, code on stream", StreamMode::shuffled, UserCode::on_stream}};
  return all;
}

/// Those that most tests try: all; under the thread sanitizer one of those with threads beside the
/// ranks', another one each time.
inline std::vector<Mode> tried_modes() {
  if (share == 1) return modes();
  static std::atomic<std::size_t> times{0};
  for (;;) {
    const Mode& mode = modes()[times++ % modes().size()];
    if (mode.streams != zero::StreamMode::inline_run) return {mode};
  }
}

struct Setup {
  std::size_t ranks = 1, replicas = 1;
  std::vector<std::size_t> axes{};  // sizes of further axes, the last of which varies fastest
  zero::ModuleOptions options{.poison = true, .time_limit = std::chrono::seconds(10)};

  Setup in(const Mode& mode, std::uint64_t seed = 1) const {
    Setup made = *this;
    made.options.streams = mode.streams;
    made.options.user_code = mode.user_code;
    made.options.seed = seed;
    return made;
  }
  Setup with_axes(std::vector<std::size_t> sizes) const {
    Setup made = *this;
    made.axes = std::move(sizes);
    return made;
  }
  std::size_t threads() const {
    std::size_t product = ranks;
    for (const std::size_t size : axes) product *= size;
    return product;
  }
  Setup on(std::size_t new_ranks, std::size_t new_replicas = 1) const {
    Setup made = *this;
    made.ranks = new_ranks;
    made.replicas = new_replicas;
    return made;
  }
};

/// A stage that is chosen at run time, so that what a test does in it is compiled once.
struct NamedStage {
  const char* name;
  zero::StageValue value;
  std::size_t replicas = 1;

  friend std::ostream& operator<<(std::ostream& out, const NamedStage& stage) {
    return out << stage.name;
  }
};
template <class StageType>
NamedStage named(const char* name, std::size_t replicas = 1) {
  static_assert(zero::proven<StageType>);
  return {name, zero::stage_value<StageType>, replicas};
}

/// The named stages that `ranks` ranks can form.
inline std::vector<NamedStage> stages(std::size_t ranks) {
  std::vector<NamedStage> all{named<zero::Ddp>("stage 0"), named<zero::Zero1>("stage 1"),
                              named<zero::Zero2>("stage 2"), named<zero::Zero3>("stage 3")};
  if (ranks % 2 == 0) {
    all.push_back(named<zero::Hybrid>("hybrid", 2));
    all.push_back(named<zero::Hpz>("hpz", 2));
  }
  return all;
}
template <class F>
void for_each_stage(std::size_t ranks, F f) {
  for (const NamedStage& stage : stages(ranks)) f(stage);
}

/// zero::run_threads, compiled once for all tests of a program.
inline void on_threads(std::size_t ranks, std::chrono::milliseconds time_limit,
                       const std::function<void(zero::ThreadCommunicator&)>& f) {
  zero::run_threads(ranks, f, {.time_limit = time_limit});
}

/// The mesh of a thread: its world is the slowest axis.
inline zero::Mesh<zero::ThreadCommunicator> mesh_of(const Setup& setup,
                                                    zero::ThreadCommunicator& comm) {
  if (setup.axes.empty()) return zero::mesh(comm, setup.replicas);
  // Along an axis of stride s and size n, ranks differ in (rank / s) % n only.
  const auto line = [&](std::size_t stride, std::size_t size) {
    const std::size_t rank = comm.rank(), at = rank / stride % size;
    return comm.split(static_cast<int>(rank - at * stride), static_cast<int>(at));
  };
  std::size_t stride = setup.threads() / setup.ranks;
  zero::Mesh<zero::ThreadCommunicator> mesh = zero::mesh(line(stride, setup.ranks), setup.replicas);
  for (const std::size_t size : setup.axes) {
    stride /= size;
    mesh = mesh.also(line(stride, size));
  }
  return mesh;
}

/// A module in a stage that is chosen at run time, as zero::shard makes one.
template <class T = float, class ModelType, class Comm, class Optimizer>
auto shard(const NamedStage& stage, const ModelType& model, const zero::Mesh<Comm>& mesh,
           const Optimizer& optimizer, const zero::ModuleOptions& options = {},
           const zero::Precision& types = zero::precision_of<T>) {
  return zero::Module<ModelType, zero::detail::optimizer_of<Optimizer>, Comm, T>(
      stage.value, model, mesh, optimizer, options, types);
}

/// Runs body(module) on each rank and returns what it returns, by rank. The first error is thrown.
template <class T = float, class ModelType, class Optimizer, class Body>
auto on_ranks(const NamedStage& stage, const Setup& setup, const ModelType& model,
              const Optimizer& optimizer, Body body,
              const zero::Precision& types = zero::precision_of<T>) {
  using Module = decltype(shard<T>(
      stage, model, std::declval<zero::Mesh<zero::ThreadCommunicator>>(), optimizer));
  // Ranks write side by side: not into the bits of a std::vector<bool>.
  using Result = std::invoke_result_t<Body&, Module&>;
  std::vector<std::conditional_t<std::is_same_v<Result, bool>, char, Result>> results(
      setup.threads());
  on_threads(setup.threads(), setup.options.time_limit, [&](zero::ThreadCommunicator& comm) {
    Module module = shard<T>(stage, model, mesh_of(setup, comm), optimizer, setup.options, types);
    results[comm.rank()] = body(module);
  });
  return results;
}
/// The same in a stage of the test's own.
template <class StageType, class T = float, class ModelType, class Optimizer, class Body>
auto on_ranks(const Setup& setup, const ModelType& model, const Optimizer& optimizer, Body body) {
  return on_ranks<T>(named<StageType>("its own"), setup, model, optimizer, body);
}

/// The text of what `f` throws, with the name of its type in front; empty if it throws nothing.
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const zero::ContractError& error) {
    return std::string("ContractError: ") + error.what();
  } catch (const zero::TimeoutError& error) {
    return std::string("TimeoutError: ") + error.what();
  } catch (const zero::CommunicatorError& error) {
    return std::string("CommunicatorError: ") + error.what();
  } catch (const zero::Error& error) {
    return std::string("Error: ") + error.what();
  } catch (const std::exception& error) { return std::string("std: ") + error.what(); }
  return {};
}
inline bool says(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (text.find(part) == std::string::npos) return false;
  }
  return true;
}

// Training.

/// One element of a gradient, or of a weight, and when and where.
struct Place {
  std::size_t rank, step, micro_step, unit, tensor, element;
};

struct Plan {
  std::size_t steps = 1, micro_steps = 1;
  std::function<float(const Place&)> gradient = [](const Place&) { return 1.0F; };
  std::function<float(const zero::TensorInfo&, std::size_t)> initial = [](const auto&, auto) {
    return 0.0F;
  };
  zero::FinishOptions finish{};
  bool waits = true;  // for the decision of each step; else the outcome has the last result only
  /// Whether a unit runs; elements of Place from `unit` up count.
  std::function<bool(const Place&)> runs = [](const Place&) { return true; };
  /// Whether a tensor gets a gradient; elements of Place from `tensor` up count.
  std::function<bool(const Place&)> touches = [](const Place&) { return true; };
  /// Called on each rank between steps, before step k.
  std::function<void(std::size_t)> before = [](std::size_t) {};
};

struct Outcome {
  std::vector<zero::StepResult> steps{};
  std::vector<float> weights{};            // of all tensors, in order, at the end
  std::vector<std::vector<float>> seen{};  // [pass of a micro-step] weights that forward saw
  std::vector<std::vector<float>> seen_backward{};
  std::size_t gathered_bytes = 0;  // at the end

  bool applied() const {
    for (const zero::StepResult& step : steps) {
      if (step.skipped()) return false;
    }
    return true;
  }
};

inline bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
  }
  return true;
}
/// Weights, norms and decisions are the same bits.
inline bool same_bits(const Outcome& a, const Outcome& b) {
  if (!same_bits(a.weights, b.weights) || a.steps.size() != b.steps.size()) return false;
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    const zero::StepResult &x = a.steps[i], &y = b.steps[i];
    if (x.applied != y.applied || x.step != y.step || !same_bits(x.norm, y.norm)) return false;
  }
  return true;
}
inline bool all_are(const std::vector<float>& values, float value) {
  for (const float x : values) {
    if (!(x == value)) return false;
  }
  return !values.empty();
}

/// Runs `code` where the user's code belongs: here, or on the stream of the unit.
template <class Unit, class F>
void compute(zero::UserCode where, const Unit& unit, F code) {
  if (where == zero::UserCode::on_caller) return code();
  unit.stream().enqueue("user code", [work = std::make_shared<F>(std::move(code))] { (*work)(); });
}

/// All weights of a module, tensor by tensor. A collective.
template <class Module>
std::vector<float> weights_of(Module& module) {
  std::vector<float> all;
  for (const zero::TensorInfo& tensor : module.parameters().tensors()) {
    std::vector<float> whole(tensor.shape.elements());
    module.read_weights(tensor.name, whole);
    all.insert(all.end(), whole.begin(), whole.end());
  }
  return all;
}
template <class Module>
std::vector<float> state_of(Module& module, std::size_t k) {
  std::vector<float> all;
  for (const zero::TensorInfo& tensor : module.parameters().tensors()) {
    if (tensor.frozen) continue;
    std::vector<float> whole(tensor.shape.elements());
    module.read_state(tensor.name, k, whole);
    all.insert(all.end(), whole.begin(), whole.end());
  }
  return all;
}

/// Whether the Parts that unit u shows are its own, or those of another unit, or none.
template <class Module>
bool has_parts(const Module& module, std::size_t u) {
  for (const std::size_t v : module.parameters().units()[u].reads) {
    if (module.parameters().units()[v].tensor_count != 0) return true;
  }
  return false;
}

/// Copies what a forward or backward sees of a unit's weights.
template <class Module, class Unit>
void look(const Module& module, zero::UserCode where, const Unit& unit, std::vector<float>& seen) {
  if (!has_parts(module, unit.index())) return;
  const auto view = unit.template weights<Parts>();
  compute(where, unit, [view, &seen] {
    for (std::size_t t = 0; t < most_tensors; ++t) {
      for (const auto& x : view[t]) seen.push_back(zero::to_float(x));
    }
  });
}

/// Adds plan.gradient to the gradients of a unit in its backward scope.
template <class Module, class Unit>
void add_gradient(const Module& module, zero::UserCode where, Unit& unit, const Plan& plan,
                  Place place) {
  if (!has_parts(module, unit.index())) return;
  const auto view = unit.template gradients<Parts>();
  zero::Tensor<float> Parts<float>::*const members[] = {&Parts<float>::a, &Parts<float>::b,
                                                        &Parts<float>::c, &Parts<float>::d};
  for (place.tensor = 0; place.tensor < most_tensors; ++place.tensor) {
    if (!plan.touches(place)) unit.no_gradient(members[place.tensor]);
  }
  compute(where, unit, [view, &plan, place]() mutable {
    for (place.tensor = 0; place.tensor < most_tensors; ++place.tensor) {
      if (!plan.touches(place)) continue;
      for (auto& to : view[place.tensor]) {
        place.element = static_cast<std::size_t>(&to - view[place.tensor].data());
        to = std::decay_t<decltype(to)>(zero::to_float(to) + plan.gradient(place));
      }
    }
  });
}

/// The passes of one training step, without its end.
template <class Module, class Step>
void run_passes(Module& module, Step& step, zero::UserCode where, const Plan& plan,
                std::size_t number, Outcome& outcome) {
  for (std::size_t m = 0; m < plan.micro_steps; ++m) {
    Place place{module.mesh().world.rank(), number, m, 0, 0, 0};
    const auto runs = [&](std::size_t unit) {
      place.unit = unit;
      return plan.runs(place);
    };
    // Streams refer to these while the lists grow: they must not move.
    outcome.seen.reserve(plan.steps * plan.micro_steps);
    outcome.seen_backward.reserve(plan.steps * plan.micro_steps);
    std::vector<float>& seen = outcome.seen.emplace_back();
    for (auto unit : step.forward()) {
      if (runs(unit.index())) {
        look(module, where, unit, seen);
      } else {
        unit.skip();
      }
    }
    std::vector<float>& seen_backward = outcome.seen_backward.emplace_back();
    for (auto unit : step.backward()) {
      if (runs(unit.index())) {
        look(module, where, unit, seen_backward);
        add_gradient(module, where, unit, plan, place);
      } else {
        unit.skip();
      }
    }
  }
}

/// Initializes a module and trains it.
template <class Module>
Outcome train(Module& module, zero::UserCode where, const Plan& plan, bool initialize = true) {
  Outcome outcome;
  if (initialize) module.initialize(plan.initial);
  for (std::size_t k = 0; k < plan.steps; ++k) {
    plan.before(k);
    auto step = module.begin_step({.micro_steps = plan.micro_steps});
    run_passes(module, step, where, plan, k, outcome);
    if (plan.waits) {
      outcome.steps.push_back(step.finish(plan.finish));
    } else {
      step.finish_async(plan.finish);
    }
  }
  if (!plan.waits) outcome.steps.push_back(module.last_result());
  module.synchronize();
  outcome.gathered_bytes = module.gathered_bytes();
  outcome.weights = weights_of(module);
  return outcome;
}

/// The same on rank threads, from the beginning; outcomes by rank.
template <class T = float, class ModelType, class Optimizer>
std::vector<Outcome> train(const NamedStage& stage, const Setup& setup, const ModelType& model,
                           const Optimizer& optimizer, const Plan& plan) {
  return on_ranks<T>(stage, setup, model, optimizer,
                     [&](auto& module) { return train(module, setup.options.user_code, plan); });
}
template <class StageType, class T = float, class ModelType, class Optimizer>
std::vector<Outcome> train(const Setup& setup, const ModelType& model, const Optimizer& optimizer,
                           const Plan& plan) {
  return train<T>(named<StageType>("its own"), setup, model, optimizer, plan);
}

/// What forward of one unit sees now, in an evaluation. Ranks call it alike.
template <class Module>
std::vector<float> evaluate(Module& module, zero::UserCode where) {
  std::vector<float> seen;
  {
    auto pass = module.evaluate();
    for (auto unit : pass.forward()) look(module, where, unit, seen);
  }
  module.synchronize();
  return seen;
}

}  // namespace harness
