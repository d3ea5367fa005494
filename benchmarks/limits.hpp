// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The limits that memory sets to loops over arrays, measured beside the loop that is judged.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <limits>
#include <vector>

namespace limits {

/// Best time in seconds of what was run through it: processor time, so that other programs on the
/// machine count less.
class Clock {
 public:
  template <class F>
  double run(F f) {
    benchmark::ClobberMemory();
    const std::clock_t begin = std::clock();
    f();
    benchmark::ClobberMemory();
    const double time = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    best_ = std::min(best_, time);
    return time;
  }
  double best() const { return best_; }

 private:
  double best_ = std::numeric_limits<double>::infinity();
};

/// Two loops over `bytes` of memory: one changes it in place, one writes a third of it from the
/// others.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : values_(bytes / sizeof(float), 1.0F) {}

  [[gnu::noinline]] void modify() {
    float* const values = values_.data();
    const std::size_t n = values_.size();
    for (std::size_t i = 0; i < n; ++i) values[i] = values[i] * 0.5F + 1.0F;
  }
  [[gnu::noinline]] void triad() {
    const std::size_t n = values_.size() / 3;
    float* __restrict a = values_.data();
    const float* __restrict b = a + n;
    const float* __restrict c = b + n;
    for (std::size_t i = 0; i < n; ++i) a[i] = b[i] + 0.5F * c[i];
  }
  double triad_bytes() const {
    return 3.0 * sizeof(float) * static_cast<double>(values_.size() / 3);
  }

 private:
  std::vector<float> values_;
};

/// Runs `work`, which lives on `footprint` bytes of memory and reads and writes `moved` bytes, in
/// turn with both loops over as much memory; the best time of each counts. Reports
///   of_modify  the time of the loop in place over the time of the work;
///   of_triad   bytes read and written per second, over those of the triad.
template <class F>
void compare(benchmark::State& state, std::size_t footprint, std::size_t moved, F work) {
  Memory memory(footprint);
  Clock work_clock, modify_clock, triad_clock;
  work();
  for (auto _ : state) {
    state.SetIterationTime(work_clock.run(work));
    modify_clock.run([&] { memory.modify(); });
    triad_clock.run([&] { memory.triad(); });
  }
  const double rate = static_cast<double>(moved) / work_clock.best();
  state.counters["GB/s"] = rate * 1e-9;
  state.counters["of_modify"] = modify_clock.best() / work_clock.best();
  state.counters["of_triad"] = rate / (memory.triad_bytes() / triad_clock.best());
}

}  // namespace limits
