// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trainings drawn at random: model, mesh, stage, types, streams, and steps, evaluations and changes
// in any order. All sums of their gradients are exact.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "grid.hpp"
#include "harness.hpp"

namespace random_training {

using grid::mix;
using harness::most_tensors;
using zero::DataType;
using zero::Precision;

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
  const T& of(const std::vector<T>& all) {
    return all[below(all.size())];
  }
  template <class Range>
  void shuffle(Range& all) {
    for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[below(i)]);
  }

 private:
  std::uint64_t state_;
};

/// Where one number of a gradient is made; `thread` counts all ranks of all axes, `of` is the unit
/// whose tensor it is, which `unit` reads.
struct Spot {
  std::size_t thread = 0, micro_step = 0, use = 0, unit = 0, of = 0, tensor = 0, element = 0;
  friend bool operator==(const Spot&, const Spot&) = default;
};

enum class What { step, leave, evaluate, write, freeze };
enum class Loop { ranges, own, pass };

struct Event {
  What what = What::step;
  std::uint64_t key = 0;  // of all its numbers
  std::size_t units = 1;  // of the model
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
        hash(s.thread, s.micro_step * 8 + s.use, (s.unit * 64 + s.of) * 8 + s.tensor, s.element);
    const int base = static_cast<int>(h % static_cast<unsigned>(2 * most + 1)) - most;
    return static_cast<float>(base + (static_cast<int>(std::floor(weight)) & 1));
  }
  bool matches(const std::string& tensor) const {
    return name.ends_with('*') ? tensor[0] == name[0] : tensor == name;
  }
};

/// Adds a weight that was seen to what was seen before it.
inline std::uint64_t digest(std::uint64_t so_far, std::size_t tensor, std::size_t element,
                            float w) {
  return so_far + mix((tensor << 40) + (element << 8) + 1) * (std::bit_cast<std::uint32_t>(w) + 1);
}

struct UnitFacts {
  std::string name;
  bool has_own = true;               // tensors, as `config` says
  harness::Config config{};          // of its own
  std::vector<std::size_t> shows{};  // units whose tensors it shows, its own first
};

/// Some events on one mesh, in one stage.
struct Phase {
  std::size_t events = 0;  // how many
  harness::Setup setup{};
  harness::NamedStage stage{};
};

struct Case {
  std::uint64_t seed = 0;
  std::vector<harness::Units> lists{4};
  std::vector<UnitFacts> units{};
  std::vector<Phase> phases{};
  Precision types{};
  int most = 8;  // of a gradient
  float momentum = 0;
  zero::LossScale loss_scale = zero::LossScale::fixed(1);
  std::vector<zero::Program> programs{};
  std::vector<Event> events{};
  static constexpr std::size_t most_uses = 2, most_micro_steps = 4;

  static float rate(std::int64_t step) { return step % 3 == 0 ? 1.0F : 0.5F; }
  static float decay(std::int64_t step) { return step % 2 == 0 ? 0.25F : 0.0F; }
  /// Of the group of tensors whose names begin with 'q'.
  static float rate_of_q(std::int64_t step) { return 2 * rate(step); }
  bool has_q() const { return lists[1].count != 0; }

  /// The first event of a phase.
  std::size_t begin_of(std::size_t phase) const {
    std::size_t begin = 0;
    for (std::size_t p = 0; p < phase; ++p) begin += phases[p].events;
    return begin;
  }
  /// Ranks beside those along which data are parallel; each has weights of its own.
  std::size_t copies() const { return phases[0].setup.threads() / phases[0].setup.ranks; }
  float initial(std::size_t copy, const std::string& tensor, std::size_t element) const {
    const std::uint64_t h = mix(grid::key_of(tensor) + mix(seed) + copy * 1000003 + element);
    return static_cast<float>(static_cast<int>(h % 4096) - 2048) / 256;
  }
  float written(const Event& e, std::size_t element) const {
    return static_cast<float>(static_cast<int>(e.hash(5, element, 0) % 4096) - 2048) / 128;
  }
  /// A unit that shows the tensors of several has no way to name one of them.
  bool touches(const Event& e, std::size_t unit, std::size_t micro_step, std::size_t tensor) const {
    return units[unit].shows.size() != 1 || e.touches(unit, micro_step, tensor);
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

}  // namespace random_training
