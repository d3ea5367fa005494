// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The training of a random_training::Case on one thread, without shards, schedules or streams: only
// what docs/numbers.md promises.
#pragma once

#include <array>

#include "random_case.hpp"

namespace random_training {

/// What is compared of an event.
struct Seen {
  std::optional<zero::StepResult> result{};
  std::vector<std::uint64_t> weights{};  // [place] of forward and backward; 0 where none ran
};

/// How weights are rounded where they compute.
inline float round_as(DataType type, float value) {
  if (type != DataType::bf16) return value;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000U);
}

class Reference {
 public:
  struct Tensor {
    std::string name;
    std::size_t unit, index;  // which of the unit's
    bool frozen, decays;
    std::vector<std::vector<float>> w, m;  // [copy][element]
  };

  /// Trains, and adds to the events of `c` what follows from it.
  explicit Reference(Case& c) : case_(c), scale_(c.loss_scale.initial) {
    for (std::size_t u = 0; u < c.units.size(); ++u) {
      for (std::size_t t = 0; t < most_tensors && c.units[u].has_own; ++t) add_tensor(u, t);
    }
    seen_.resize(c.copies());
    std::size_t k = 0;
    for (const Phase& phase : c.phases) {
      setup_ = &phase.setup;
      std::vector<bool>& frozen = frozen_.emplace_back();
      for (const Tensor& tensor : tensors_) frozen.push_back(tensor.frozen);
      for (const std::size_t end = k + phase.events; k < end; ++k) run(c.events[k]);
    }
  }

  const std::vector<Tensor>& tensors() const { return tensors_; }
  /// Of each event on the ranks of one copy.
  const std::vector<Seen>& seen(std::size_t copy) const { return seen_[copy]; }
  /// [tensor] whether it is when a phase begins.
  const std::vector<bool>& frozen(std::size_t phase) const { return frozen_[phase]; }

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
    for (std::size_t copy = 0; copy < case_.copies(); ++copy) {
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
    std::size_t nth = 0;
    for (const std::size_t u : case_.units[unit].shows) {
      for (Tensor& tensor : tensors_) {
        if (tensor.unit == u) f(tensor, nth++);
      }
    }
  }

  void run(Event& e) {
    for (std::size_t copy = 0; copy < case_.copies(); ++copy) look(e, copy);
    if (e.what == What::step) step(e);
    for (Tensor& tensor : tensors_) {
      if (e.what == What::write && e.matches(tensor.name)) write(e, tensor);
      if (e.what == What::freeze && e.matches(tensor.name)) freeze(e, tensor);
    }
  }
  void write(const Event& e, Tensor& tensor) {
    for (auto& w : tensor.w) {
      for (std::size_t i = 0; i < w.size(); ++i) w[i] = case_.written(e, i);
    }
    if (tensor.frozen) round(tensor);
  }
  void freeze(const Event& e, Tensor& tensor) {
    if (tensor.frozen == e.fixed) return;
    tensor.frozen = e.fixed;
    round(tensor);
    for (auto& m : tensor.m) m.assign(m.size(), 0.0F);
  }
  void look(const Event& e, std::size_t copy) {
    Seen& seen = seen_[copy].emplace_back();
    if (e.what == What::write || e.what == What::freeze) return;
    seen.weights.resize(case_.places());
    for (const zero::Compute& c : case_.program_of(e).computes) {
      if (e.what != What::evaluate && !e.runs(c.unit, c.micro_step)) continue;
      std::uint64_t& to = seen.weights[case_.place(c.op, c.unit, c.micro_step, c.use)];
      to = 1;
      for_each_shown(c.unit, [&](const Tensor& tensor, std::size_t nth) {
        for (std::size_t i = 0; i < tensor.w[copy].size(); ++i) {
          to = digest(to, nth, i, round_as(case_.types.gather, tensor.w[copy][i]));
        }
      });
    }
  }

  using Sums = std::vector<std::vector<std::vector<double>>>;  // [tensor][copy][element]

  void step(Event& e) {
    Sums sums(tensors_.size());  // empty where no gradient is
    std::vector<Spot> spots;     // that may be broken
    for (const zero::Compute& c : case_.program_of(e).computes) {
      if (c.op != zero::Op::backward || !e.runs(c.unit, c.micro_step)) continue;
      for_each_shown(c.unit, [&](const Tensor& tensor, std::size_t) {
        if (tensor.frozen || !case_.touches(e, c.unit, c.micro_step, tensor.index)) return;
        auto& sum = sums[static_cast<std::size_t>(&tensor - tensors_.data())];
        sum.resize(case_.copies(), std::vector<double>(tensor.w[0].size()));
        for (std::size_t thread = 0; thread < setup_->threads(); ++thread) {
          const std::size_t copy = thread % case_.copies();
          Spot s{thread, c.micro_step, c.use, c.unit, tensor.unit, tensor.index, 0};
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
  double finish(Event& e, Sums& sums) {
    const double divisor = e.divisor == 0 ? static_cast<double>(setup_->ranks) : e.divisor;
    const double p = setup_->options.norm;
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
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      for (std::size_t copy = 0; copy < sums[t].size(); ++copy) {
        update(tensors_[t], copy, sums[t][copy], factor);
      }
    }
    return norm;
  }
  void update(Tensor& tensor, std::size_t copy, const std::vector<double>& sum, double factor) {
    const float rate = tensor.name[0] == 'q' ? Case::rate_of_q(step_) : Case::rate(step_);
    const float decay = tensor.decays ? Case::decay(step_) : 0;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      float &w = tensor.w[copy][i], &m = tensor.m[copy][i];
      m = case_.momentum * m + (static_cast<float>(sum[i] * factor) + decay * w);
      w = w - rate * m;
    }
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
  const harness::Setup* setup_ = nullptr;  // of the phase
  std::vector<Tensor> tensors_;
  std::vector<std::vector<Seen>> seen_;    // [copy][event]
  std::vector<std::vector<bool>> frozen_;  // [phase][tensor]
  std::int64_t step_ = 0, good_ = 0, overflows_ = 0;
  double scale_;
};

}  // namespace random_training
