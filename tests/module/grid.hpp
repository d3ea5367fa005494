// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The grid of models on which the tests of the module run: units of several kinds and sizes, with
// frozen and tied tensors, gradients that depend on everything, and a reference on one thread.
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>
#include <zero/zero.hpp>

#include "../share.hpp"

namespace grid {

using zero::Shape;
using Sizes = std::array<Shape, 4>;

template <class T>
struct First {
  zero::Tensor<T> a, b, c, d;
  static constexpr auto tensors(const Sizes& s) {
    return zero::tensors(zero::tensor("a", &First::a, s[0]), zero::tensor("b", &First::b, s[1]),
                         zero::tensor("c", &First::c, s[2], zero::no_decay),
                         zero::tensor("d", &First::d, s[3]));
  }
};
template <class T>
struct Block {
  zero::Tensor<T> a, b, c, d;
  static constexpr auto tensors(const Sizes& s) {
    return zero::tensors(zero::tensor("a", &Block::a, s[0]),
                         zero::tensor("b", &Block::b, s[1], zero::frozen),
                         zero::tensor("c", &Block::c, s[2], zero::no_decay),
                         zero::tensor("d", &Block::d, s[3], zero::frozen));
  }
};
template <class T>
struct Last {
  zero::Tensor<T> a, b, c, d;
  static constexpr auto tensors(const Sizes& s) {
    return zero::tensors(zero::tensor("a", &Last::a, s[0]), zero::tensor("b", &Last::b, s[1]),
                         zero::tensor("c", &Last::c, s[2]), zero::tensor("d", &Last::d, s[3]));
  }
};

/// At most one First, some Blocks, at most one Last, which reads the First too if it is tied.
struct Shapes {
  const char* name;
  std::size_t firsts, blocks, lasts;
  Sizes first, block, last;
  bool tied = false;

  std::size_t units() const { return firsts + blocks + lasts; }
};

inline const Sizes tiny{Shape{1}, Shape{2}, Shape{3}, Shape{0}};
inline const Sizes odd{Shape{1, 7, 5}, Shape{4, 4}, Shape{2}, Shape{1}};
inline const Sizes four{Shape{1}, Shape{7}, Shape{5}, Shape{44}};
inline const Sizes large{Shape{1000, 3}, Shape{3}, Shape{57}, Shape{16, 16}};

inline const std::vector<Shapes> models{
    {"one tiny unit", 1, 0, 0, tiny, tiny, tiny},
    {"two odd units, tied", 1, 0, 1, odd, odd, tiny, true},
    {"three units of three kinds", 1, 1, 1, four, odd, four},
    {"four blocks", 0, 4, 0, tiny, four, tiny},
    {"five units, tied", 1, 3, 1, tiny, odd, large, true},
    {"six units", 1, 4, 1, large, four, odd},
};

/// Those that most tests try: all; under the thread sanitizer one, of three kinds and tied.
inline const std::vector<Shapes>& tried_models() {
  static const std::vector<Shapes> few{models[4]};
  return share == 1 ? models : few;
}

inline auto make_model(const Shapes& m) {
  auto last = zero::units<Last>("last", m.lasts, m.last);
  return zero::model(zero::units<First>("first", m.firsts, m.first),
                     zero::units<Block>("block", m.blocks, m.block),
                     m.tied ? std::move(last).reads("first.0") : std::move(last));
}

/// Source: Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014.
inline std::uint64_t mix(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}
/// In [-1, 1), exact in float.
inline float noise(std::uint64_t key) {
  return static_cast<float>(static_cast<std::int64_t>(mix(key) >> 40) - (1 << 23)) * 0x1p-23F;
}
inline std::uint64_t key_of(const std::string& name) {
  std::uint64_t key = 0;
  for (const char c : name) key = mix(key + static_cast<unsigned char>(c));
  return key;
}
inline float initial_weight(const zero::TensorInfo& tensor, std::size_t element) {
  return noise(key_of(tensor.name) + element);
}

/// The gradient of one element; exact ones are small integers, whose sums have no rounding.
template <class Number>
Number gradient(std::uint64_t key, std::size_t element, Number weight, Number activation,
                bool exact) {
  if (exact) return static_cast<Number>(static_cast<int>(mix(key + element) % 17) - 8);
  const auto random = static_cast<Number>(noise(key + element));
  return random + Number{0.25F} * weight + Number{0.125F} * activation;
}
/// What a forward keeps of the weights for its backward.
template <class Number>
Number activation(const Number* weights, std::size_t n) {
  Number sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += weights[i] * static_cast<Number>(i % 7);
  return n == 0 ? sum : sum / static_cast<Number>(n);
}
inline std::uint64_t gradient_key(std::size_t rank, std::size_t step, std::size_t micro_step,
                                  std::size_t unit, std::size_t tensor) {
  return mix(mix((rank << 32) + step) + (micro_step << 32) + (unit << 16) + tensor);
}

struct Case {
  Shapes shapes = models[2];
  std::size_t world = 2, replicas = 1, steps = 5;
  std::vector<std::size_t> micro_steps{1};  // taken in turn
  bool exact = false, evaluates = true;
  double max_norm = std::numeric_limits<double>::infinity();
  zero::ModuleOptions options{};

  std::size_t micro_steps_of(std::size_t step) const {
    return micro_steps[step % micro_steps.size()];
  }
  std::string text() const {
    constexpr const char* streams[] = {"inline", "asynchronous", "shuffled"};
    std::string micro;
    for (const std::size_t m : micro_steps) micro += ' ' + std::to_string(m);
    return std::string(shapes.name) + ", " + std::to_string(world) + " ranks, " +
           std::to_string(replicas) + " replicas, micro-steps" + micro + ", streams " +
           streams[static_cast<std::size_t>(options.streams)] + ", seed " +
           std::to_string(options.seed) +
           (options.user_code == zero::UserCode::on_stream ? ", user code on stream" : "") +
           (exact ? ", exact" : "");
  }
};

inline const zero::AdamW adam{.learning_rate = 1e-3F, .epsilon = 1e-2F, .weight_decay = 0.1F};

/// What training leaves, as bits; empty if ranks differ.
struct Outcome {
  std::vector<std::uint32_t> weights, states, evaluated;
  std::vector<std::uint64_t> norms;
  std::size_t gathered_bytes = 0;  // after the last step
  friend bool operator==(const Outcome&, const Outcome&) = default;
  bool empty() const { return weights.empty(); }
};

/// One rank's loop, as a user writes it.
template <class Module>
class Trainer {
 public:
  Trainer(Module& module, const Case& c) : module_(module), case_(c) {
    activations_.resize(module.parameters().units().size());
  }

  Outcome run() {
    for (step_ = 0; step_ < case_.steps; ++step_) {
      if (case_.evaluates && step_ % 3 == 2) evaluate();
      train();
    }
    module_.synchronize();
    outcome_.gathered_bytes = module_.gathered_bytes();
    for (const zero::TensorInfo& tensor : module_.parameters().tensors()) {
      std::vector<float> values(tensor.shape.elements());
      module_.read_weights(tensor.name, values);
      keep(outcome_.weights, values);
      for (std::size_t k = 0; k < 2 && !tensor.frozen; ++k) {
        module_.read_state(tensor.name, k, values);
        keep(outcome_.states, values);
      }
    }
    return outcome_;
  }

 private:
  static void keep(std::vector<std::uint32_t>& to, const std::vector<float>& values) {
    for (const float value : values) to.push_back(std::bit_cast<std::uint32_t>(value));
  }
  void train() {
    const std::size_t micro_steps = case_.micro_steps_of(step_);
    auto step = module_.begin_step({.micro_steps = micro_steps});
    scale_ = static_cast<float>(step.loss_scale());
    for (micro_step_ = 0; micro_step_ < micro_steps; ++micro_step_) {
      for (auto unit : step.forward()) forward(unit);
      for (auto unit : step.backward()) {
        visit(unit, [&]<template <class> class Kind>(std::size_t u) { backward<Kind>(unit, u); });
      }
    }
    const zero::StepResult result = step.finish({.max_norm = case_.max_norm});
    outcome_.norms.push_back(std::bit_cast<std::uint64_t>(result.norm));
    if (!result.applied) outcome_.norms.push_back(0);
  }
  void evaluate() {
    {
      auto pass = module_.evaluate();
      for (auto unit : pass.forward()) forward(unit);
    }
    module_.synchronize();
    for (const float a : activations_)
      outcome_.evaluated.push_back(std::bit_cast<std::uint32_t>(a));
  }

  template <class Unit>
  void forward(Unit& unit) {
    on_stream(unit, [to = &activations_[unit.index()]] { *to = 0; });
    visit(unit, [&]<template <class> class Kind>(std::size_t) {
      const auto w = unit.template weights<Kind>();
      for (const auto& tensor : {w.a, w.b, w.c, w.d}) {
        on_stream(unit, [to = &activations_[unit.index()], from = tensor.data(),
                         n = tensor.size()] { *to += activation_of(from, n); });
      }
    });
  }
  template <template <class> class Kind, class Unit>
  void backward(Unit& unit, std::size_t u) {
    const auto w = unit.template weights<Kind>();
    const auto g = unit.template gradients<Kind>();
    std::size_t tensor = module_.parameters().units()[u].first_tensor;
    for (const auto member : {0, 1, 2, 3}) {
      const auto& to = member == 0 ? g.a : member == 1 ? g.b : member == 2 ? g.c : g.d;
      const auto& from = member == 0 ? w.a : member == 1 ? w.b : member == 2 ? w.c : w.d;
      const std::uint64_t key =
          gradient_key(module_.mesh().world.rank(), step_, micro_step_, unit.index(), tensor);
      if (!module_.parameters().tensors()[tensor++].frozen) add(unit, to, from.data(), key);
    }
  }
  template <class Unit, class Sum, class T>
  void add(Unit& unit, const zero::Tensor<Sum>& to, const T* from, std::uint64_t key) {
    on_stream(unit, [out = to.data(), from, n = to.size(), key, exact = case_.exact, scale = scale_,
                     kept = &activations_[unit.index()]] {
      for (std::size_t i = 0; i < n; ++i) {
        const float more = gradient(key, i, zero::to_float(from[i]), *kept, exact) * scale;
        out[i] = Sum(zero::to_float(out[i]) + more);
      }
    });
  }
  /// Calls f<Kind>(u) for the unit itself, and for the First that it is tied to.
  template <class Unit, class F>
  void visit(Unit& unit, F f) {
    const Shapes& s = case_.shapes;
    const std::size_t u = unit.index();
    if (u < s.firsts) return f.template operator()<First>(u);
    if (u < s.firsts + s.blocks) return f.template operator()<Block>(u);
    f.template operator()<Last>(u);
    if (s.tied) f.template operator()<First>(0);
  }
  template <class T>
  static float activation_of(const T* from, std::size_t n) {
    if constexpr (std::is_same_v<T, float>) {
      return activation(from, n);
    } else {
      std::vector<float> wide(n);
      for (std::size_t i = 0; i < n; ++i) wide[i] = zero::to_float(from[i]);
      return activation(wide.data(), n);
    }
  }
  template <class Unit, class F>
  void on_stream(Unit& unit, F f) {
    if (case_.options.user_code == zero::UserCode::on_caller) return f();
    unit.stream().enqueue("user", f);
  }

  Module& module_;
  const Case& case_;
  std::size_t step_ = 0, micro_step_ = 0;
  float scale_ = 1;
  std::vector<float> activations_;  // [unit]
  Outcome outcome_;
};

/// Trains on threads with the module that `make(model, mesh, optimizer, options)` returns; gives
/// what all ranks agree on.
template <class T, class Make>
Outcome train_made(const Case& c, Make make) {
  using Model = decltype(make_model(c.shapes));
  using Module = zero::Module<Model, zero::AdamW, zero::ThreadCommunicator, T>;
  std::vector<Outcome> outcomes(c.world);
  zero::run_threads(c.world,
                    [&](zero::ThreadCommunicator& comm) {
                      zero::ModuleOptions options = c.options;
                      options.seed = options.seed * 31 + comm.rank();
                      auto made =
                          make(make_model(c.shapes), zero::mesh(comm, c.replicas), adam, options);
                      Module& module = made;
                      module.initialize(initial_weight);
                      outcomes[comm.rank()] = Trainer(module, c).run();
                    },
                    {.time_limit = std::chrono::seconds(30)});
  for (const Outcome& outcome : outcomes) {
    if (outcome != outcomes[0]) return {};
  }
  return outcomes[0];
}
template <class StageType, class T = float>
Outcome train(const Case& c) {
  return train_made<T>(
      c, [](auto model, const auto& mesh, const auto& optimizer, const auto& options) {
        return zero::shard<StageType, T>(std::move(model), mesh, optimizer, options);
      });
}
/// In a stage, and in types, that are chosen at run time.
template <class T = float>
Outcome train(const zero::StageValue& stage, const Case& c,
              const zero::Precision& types = zero::precision_of<T>) {
  return train_made<T>(c, [&](auto model, const zero::Mesh<zero::ThreadCommunicator>& mesh,
                              const zero::AdamW& optimizer, const zero::ModuleOptions& options) {
    return zero::Module<decltype(model), zero::AdamW, zero::ThreadCommunicator, T>(
        stage, std::move(model), mesh, optimizer, options, types);
  });
}

/// The same training on one thread in double, without shards, schedules or streams.
class Reference {
 public:
  explicit Reference(const Case& c) : case_(c), table_(make_model(c.shapes), 1) {
    for (const zero::TensorInfo& tensor : table_.tensors()) {
      State& state = tensors_.emplace_back();
      for (std::size_t i = 0; i < tensor.shape.elements(); ++i) {
        state.weight.push_back(initial_weight(tensor, i));
      }
      state.gradient = state.first = state.second = std::vector<double>(state.weight.size());
    }
    for (std::size_t step = 0; step < c.steps; ++step) train(step);
  }

  /// The largest difference between a weight here and there.
  double distance(const Outcome& outcome) const {
    double most = 0;
    std::size_t at = 0;
    for (const State& state : tensors_) {
      for (const double weight : state.weight) {
        if (at == outcome.weights.size()) return std::numeric_limits<double>::infinity();
        most = std::max(most, std::fabs(weight - std::bit_cast<float>(outcome.weights[at++])));
      }
    }
    return at == outcome.weights.size() ? most : std::numeric_limits<double>::infinity();
  }
  double norm_distance(const Outcome& outcome) const {
    if (outcome.norms.size() != norms_.size()) return std::numeric_limits<double>::infinity();
    double most = 0;
    for (std::size_t k = 0; k < norms_.size(); ++k) {
      most = std::max(most, std::fabs(std::bit_cast<double>(outcome.norms[k]) / norms_[k] - 1));
    }
    return most;
  }

 private:
  struct State {
    std::vector<double> weight, gradient, first, second;
  };

  void train(std::size_t step) {
    for (State& state : tensors_) state.gradient.assign(state.gradient.size(), 0);
    for (std::size_t rank = 0; rank < case_.world; ++rank) {
      for (std::size_t m = 0; m < case_.micro_steps_of(step); ++m) {
        for (std::size_t u = 0; u < table_.units().size(); ++u) add_gradients(rank, step, m, u);
      }
    }
    double sum = 0;
    for (State& state : tensors_) {
      for (double& g : state.gradient) {
        g /= static_cast<double>(case_.world);
        sum += g * g;
      }
    }
    norms_.push_back(std::sqrt(sum));
    const double clip = norms_.back() > case_.max_norm ? case_.max_norm / norms_.back() : 1;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (!table_.tensors()[t].frozen) update(tensors_[t], table_.tensors()[t].decay, clip, step);
    }
  }
  template <class F>
  void for_each_tensor(std::size_t unit, F f) {
    for (const std::size_t u : table_.units()[unit].reads) {
      const zero::UnitInfo& info = table_.units()[u];
      for (std::size_t t = 0; t < info.tensor_count; ++t) f(info.first_tensor + t);
    }
  }
  void add_gradients(std::size_t rank, std::size_t step, std::size_t m, std::size_t unit) {
    double kept = 0;
    for_each_tensor(unit, [&](std::size_t t) {
      kept += activation(tensors_[t].weight.data(), tensors_[t].weight.size());
    });
    for_each_tensor(unit, [&](std::size_t t) {
      if (table_.tensors()[t].frozen) return;
      State& state = tensors_[t];
      const std::uint64_t key = gradient_key(rank, step, m, unit, t);
      for (std::size_t i = 0; i < state.weight.size(); ++i) {
        state.gradient[i] += gradient(key, i, state.weight[i], kept, case_.exact);
      }
    });
  }
  /// Source: Loshchilov & Hutter, Decoupled weight decay regularization, 2019, algorithm 2.
  static void update(State& state, bool decay, double clip, std::size_t step) {
    const double b1 = adam.beta1, b2 = adam.beta2, rate = adam.learning_rate.at(0);
    const double t = static_cast<double>(step) + 1;
    for (std::size_t i = 0; i < state.weight.size(); ++i) {
      const double g = state.gradient[i] * clip;
      state.first[i] = b1 * state.first[i] + (1 - b1) * g;
      state.second[i] = b2 * state.second[i] + (1 - b2) * g * g;
      const double m = state.first[i] / (1 - std::pow(b1, t));
      const double v = state.second[i] / (1 - std::pow(b2, t));
      if (decay) state.weight[i] *= 1 - rate * adam.weight_decay.at(0);
      state.weight[i] -= rate * m / (std::sqrt(v) + adam.epsilon);
    }
  }

  const Case& case_;
  zero::ParameterTable table_;
  std::vector<State> tensors_;
  std::vector<double> norms_;
};

}  // namespace grid
