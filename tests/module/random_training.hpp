// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Random models, meshes, programs and events of a training, and the training itself on one thread,
// without shards, schedules or streams: only what docs/numbers.md promises. All sums are exact.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "grid.hpp"
#include "harness.hpp"

namespace random_training {

using grid::mix;

/// Choices that follow from a seed.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(mix(seed)) {}
  std::uint64_t next() { return state_ = mix(state_); }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }
  bool chance(unsigned percent) { return below(100) < percent; }
  template <class T>
  T of(std::initializer_list<T> all) {
    return all.begin()[below(all.size())];
  }
  template <class T>
  void shuffle(std::vector<T>& all) {
    for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[below(i)]);
  }

 private:
  std::uint64_t state_;
};

/// Where one number of a gradient is made; `thread` counts all ranks of all axes.
struct Spot {
  std::size_t thread = 0, micro_step = 0, use = 0, unit = 0, tensor = 0, element = 0;
  friend bool operator==(const Spot&, const Spot&) = default;
};

enum class What { step, leave, evaluate, write, freeze };
enum class Loop { ranges, own, pass };

struct Event {
  What what = What::step;
  std::uint64_t key = 0;  // of all its numbers
  // A step.
  Loop loop = Loop::ranges;
  std::optional<std::size_t> program{};  // of Case::programs
  std::size_t micro_steps = 1;
  unsigned skipped = 0, untouched = 0;  // percent of units, of tensors
  double divisor = 0, clip = 0;         // clip to this part of the norm; 0 for no clipping
  bool waits = true, breaks = false;    // for the decision; one gradient is not finite
  std::size_t leaves_after = 0;         // computes
  bool throws = false;
  std::string name{};  // of what is written or frozen
  bool fixed = false;
  // What the reference adds.
  double max_norm = std::numeric_limits<double>::infinity();
  Spot broken{};
  float broken_value = 0;

  std::uint64_t hash(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d = 0) const {
    return mix(mix(mix(mix(key + a) + b) + c) + d);
  }
  std::size_t units = 1;  // of the model
  /// One unit always does: a micro-step in which nothing runs is refused.
  bool runs(std::size_t unit, std::size_t micro_step) const {
    if (unit == (program ? 0 : hash(9, micro_step, 0) % units)) return true;
    return hash(1, unit, 0) % 100 >= skipped && hash(2, unit, micro_step) % 100 >= skipped / 2;
  }
  bool touches(std::size_t unit, std::size_t micro_step, std::size_t tensor) const {
    return hash(3, unit, tensor) % 100 >= untouched &&
           hash(4, unit, tensor, micro_step) % 100 >= untouched;
  }
  /// A small integer that depends on the weight that backward sees.
  float gradient(const Spot& s, float weight, int most) const {
    const std::uint64_t h =
        hash(s.thread, s.micro_step * 8 + s.use, s.unit * 8 + s.tensor, s.element);
    const int base = static_cast<int>(h % static_cast<unsigned>(2 * most + 1)) - most;
    return static_cast<float>(base + (static_cast<int>(std::floor(weight)) & 1));
  }
};

/// How weights are rounded where they compute.
inline float round_as(zero::DataType type, float value) {
  if (type != zero::DataType::bf16) return value;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000U);
}
inline std::uint64_t digest(std::uint64_t so_far, std::size_t tensor, std::size_t element,
                            float w) {
  return so_far + mix((tensor << 40) + (element << 8) + 1) * (std::bit_cast<std::uint32_t>(w) + 1);
}

struct UnitFacts {
  std::string name;
  std::optional<std::size_t> parts;  // the unit whose tensors it shows
  harness::Config config;            // if these are its own
};

struct Case {
  std::uint64_t seed = 0;
  std::vector<harness::Units> lists{4};
  std::vector<UnitFacts> units{};
  harness::Setup setup{};
  harness::NamedStage stage{};
  zero::Precision types{};
  int most = 8;  // of a gradient
  float momentum = 0;
  zero::LossScale loss_scale = zero::LossScale::fixed(1);
  std::vector<zero::Program> programs{};
  std::vector<Event> events{};
  bool has_q() const { return lists[1].count != 0; }
  std::size_t most_uses = 2, most_micro_steps = 4;

  static float rate(std::int64_t step) { return step % 3 == 0 ? 1.0F : 0.5F; }
  static float decay(std::int64_t step) { return step % 2 == 0 ? 0.25F : 0.0F; }
  /// Of the group of tensors whose names begin with 'q'.
  static float rate_of_q(std::int64_t step) { return 2 * rate(step); }

  std::size_t axes() const { return setup.threads() / setup.ranks; }
  float initial(std::size_t copy, const std::string& tensor, std::size_t element) const {
    const std::uint64_t h = mix(grid::key_of(tensor) + mix(seed) + copy * 1000003 + element);
    return static_cast<float>(static_cast<int>(h % 4096) - 2048) / 256;
  }
  float written(const Event& e, std::size_t element) const {
    return static_cast<float>(static_cast<int>(e.hash(5, element, 0) % 4096) - 2048) / 128;
  }
  /// Where a compute notes what it saw.
  std::size_t place(zero::Op op, std::size_t unit, std::size_t micro_step, std::size_t use) const {
    const std::size_t backward = op == zero::Op::backward;
    return ((micro_step * most_uses + use) * 2 + backward) * units.size() + unit;
  }
  std::size_t places() const { return most_micro_steps * most_uses * 2 * units.size(); }
  /// What a step computes.
  zero::Program program_of(const Event& e) const {
    if (e.what == What::evaluate) return zero::evaluation(units.size());
    return e.program ? programs[*e.program] : zero::training(units.size(), e.micro_steps);
  }
};

/// What is compared.
struct Seen {
  std::optional<zero::StepResult> result{};
  std::vector<std::uint64_t> weights{};  // [place] of forward and backward; 0 where none ran
};

/// The training of one case on one thread.
class Reference {
 public:
  struct Tensor {
    std::string name;
    std::size_t unit, index;  // which of the unit's
    bool frozen, decays;
    std::vector<std::vector<float>> w, m;  // [copy along the axes][element]
  };

  explicit Reference(Case& c) : case_(c), scale_(c.loss_scale.initial) {
    for (std::size_t u = 0; u < c.units.size(); ++u) {
      if (c.units[u].parts != u) continue;
      for (std::size_t t = 0; t < harness::most_tensors; ++t) add_tensor(u, t);
    }
    for (Event& e : c.events) run(e);
  }

  const std::vector<Tensor>& tensors() const { return tensors_; }
  /// Of each event on the ranks of one copy.
  const std::vector<Seen>& seen(std::size_t copy) const { return seen_[copy]; }
  double scale() const { return scale_; }

 private:
  void add_tensor(std::size_t u, std::size_t t) {
    const harness::Config& config = case_.units[u].config;
    const std::string name = case_.units[u].name + "." + "abcd"[t];
    Tensor made{name,
                u,
                t,
                zero::has(config.options[t], zero::frozen),
                !zero::has(config.options[t], zero::no_decay),
                {},
                {}};
    for (std::size_t copy = 0; copy < case_.axes(); ++copy) {
      std::vector<float>& w = made.w.emplace_back(config.shapes[t].elements());
      for (std::size_t i = 0; i < w.size(); ++i) w[i] = case_.initial(copy, name, i);
      made.m.emplace_back(w.size());
    }
    if (made.frozen) round(made);
    tensors_.push_back(std::move(made));
  }
  /// Frozen tensors have no master.
  void round(Tensor& tensor) {
    for (auto& w : tensor.w) {
      for (float& x : w) x = round_as(case_.types.gather, x);
    }
  }
  template <class F>
  void for_each_shown(std::size_t unit, F f) {
    for (Tensor& tensor : tensors_) {
      if (case_.units[unit].parts == tensor.unit) f(tensor);
    }
  }

  void run(Event& e) {
    seen_.resize(case_.axes());
    for (std::size_t copy = 0; copy < case_.axes(); ++copy) look(e, copy);
    if (e.what == What::step) step(e);
    for (Tensor& tensor : tensors_) {
      if (e.what == What::write && tensor.name == e.name) {
        for (auto& w : tensor.w) {
          for (std::size_t i = 0; i < w.size(); ++i) w[i] = case_.written(e, i);
        }
        if (tensor.frozen) round(tensor);
      }
      const bool matches = e.name.ends_with('*') ? tensor.name.starts_with(e.name.substr(0, 1))
                                                 : tensor.name == e.name;
      if (e.what != What::freeze || !matches || tensor.frozen == e.fixed) continue;
      tensor.frozen = e.fixed;
      round(tensor);
      for (auto& m : tensor.m) m.assign(m.size(), 0.0F);
    }
  }
  void look(const Event& e, std::size_t copy) {
    Seen& seen = seen_[copy].emplace_back();
    if (e.what == What::write || e.what == What::freeze) return;
    seen.weights.resize(case_.places());
    for (const zero::Compute& c : case_.program_of(e).computes) {
      if (e.what != What::evaluate && !e.runs(c.unit, c.micro_step)) continue;
      std::uint64_t& to = seen.weights[case_.place(c.op, c.unit, c.micro_step, c.use)];
      to = 1;
      for_each_shown(c.unit, [&](const Tensor& tensor) {
        for (std::size_t i = 0; i < tensor.w[copy].size(); ++i) {
          to = digest(to, tensor.index, i, round_as(case_.types.gather, tensor.w[copy][i]));
        }
      });
    }
  }
  void step(Event& e) {
    std::vector<std::vector<std::vector<double>>> sums(tensors_.size());  // empty if absent
    std::vector<Spot> spots;                                              // that may be broken
    for (const zero::Compute& c : case_.program_of(e).computes) {
      if (c.op != zero::Op::backward || !e.runs(c.unit, c.micro_step)) continue;
      for_each_shown(c.unit, [&](const Tensor& tensor) {
        if (tensor.frozen || !e.touches(c.unit, c.micro_step, tensor.index)) return;
        auto& sum = sums[static_cast<std::size_t>(&tensor - tensors_.data())];
        sum.resize(case_.axes(), std::vector<double>(tensor.w[0].size()));
        for (std::size_t thread = 0; thread < case_.setup.threads(); ++thread) {
          const std::size_t copy = thread % case_.axes();
          Spot s{thread, c.micro_step, c.use, c.unit, tensor.index, 0};
          for (; s.element < tensor.w[copy].size(); ++s.element) {
            const float w = round_as(case_.types.gather, tensor.w[copy][s.element]);
            sum[copy][s.element] += e.gradient(s, w, case_.most);
            if (e.hash(6, spots.size(), s.element) % 7 == 0) spots.push_back(s);
          }
        }
      });
    }
    e.breaks = e.breaks && !spots.empty();
    zero::StepResult result{.applied = !e.breaks, .norm = 0, .step = step_, .loss_scale = scale_};
    if (e.breaks) {
      constexpr float infinity = std::numeric_limits<float>::infinity();
      e.broken = spots[e.hash(7, 0, 0) % spots.size()];
      e.broken_value = std::array{infinity, -infinity, NAN}[e.hash(8, 0, 0) % 3];
      overflow();
    } else {
      result.norm = finish(e, sums);
      result.step = ++step_;
      grow();
    }
    for (auto& seen : seen_) seen.back().result = result;
  }
  double finish(Event& e, std::vector<std::vector<std::vector<double>>>& sums) {
    const double divisor = e.divisor == 0 ? static_cast<double>(case_.setup.ranks) : e.divisor;
    const double p = case_.setup.options.norm;
    double norm = 0;
    for (auto& sum : sums) {
      for (auto& copy : sum) {
        for (double& g : copy) {
          g /= divisor;
          norm = std::isinf(p) ? std::max(norm, std::fabs(g)) : norm + std::pow(std::fabs(g), p);
        }
      }
    }
    if (p == 2) norm = std::sqrt(norm);
    if (e.clip != 0) e.max_norm = norm * e.clip;
    const double factor = norm > e.max_norm ? e.clip : 1;
    const float decay = Case::decay(step_);
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      Tensor& tensor = tensors_[t];
      const float rate = tensor.name[0] == 'q' ? Case::rate_of_q(step_) : Case::rate(step_);
      for (std::size_t copy = 0; copy < sums[t].size(); ++copy) {
        for (std::size_t i = 0; i < tensor.w[copy].size(); ++i) {
          float &w = tensor.w[copy][i], &m = tensor.m[copy][i];
          const auto g = static_cast<float>(sums[t][copy][i] * factor);
          m = case_.momentum * m + (g + (tensor.decays ? decay : 0.0F) * w);
          w = w - rate * m;
        }
      }
    }
    return norm;
  }
  void overflow() {
    if (case_.loss_scale.is_fixed()) return;
    good_ = 0;
    if (++overflows_ >= case_.loss_scale.hysteresis) scale_ /= 2;
  }
  void grow() {
    if (case_.loss_scale.is_fixed() || ++good_ < case_.loss_scale.growth_interval) return;
    scale_ *= 2;
    good_ = overflows_ = 0;
  }

  Case& case_;
  std::vector<Tensor> tensors_;
  std::vector<std::vector<Seen>> seen_;  // [copy][event]
  std::int64_t step_ = 0, good_ = 0, overflows_ = 0;
  double scale_;
};

}  // namespace random_training
