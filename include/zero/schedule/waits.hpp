// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// WaitFinder: the waits of a schedule, from what its steps read and write. Includes schedule/ only.
#pragma once

#include <zero/schedule/detail/scratch.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero {

/// Sets `waits` and `signals` of every step so that conflicting accesses are ordered, within one
/// execution and across the boundary to the next, and so that no wait implies another.
///
/// Each stream keeps a vector clock: per stream, the latest step that it knows to be complete.
/// A step waits for the latest conflicting step of each other stream that its own clock and the
/// other waits do not cover. The program is walked twice; the second walk sees the first as its
/// previous execution, and finds the waits of the steady state.
///
/// Allocates: only if it never saw as many steps and buffers.
/// Source:    vector clocks, Mattern 1989; shadow state per buffer, Flanagan and Freund 2009.
class WaitFinder {
 public:
  /// Obtains room for schedules of that many steps and buffers.
  constexpr void reserve(std::size_t steps, std::size_t buffers) {
    buffers_.reserve(buffers);
    implied_.reserve(2 * steps + 1);
  }
  constexpr void find(Schedule& schedule) {
    Step* const steps = schedule.steps.data();
    const auto n = static_cast<std::uint32_t>(schedule.steps.size());
    std::size_t first[space_count + 1] = {};  // where a space begins in `shadows`
    for (std::size_t s = 0; s < space_count; ++s) first[s + 1] = first[s] + schedule.extent[s];
    buffers_.reset(first[space_count]);
    implied_.reset(2 * std::size_t{n} + 1);
    Shadow* const shadows = buffers_.data();
    Clock* const known = implied_.data();  // what each step implies when it is complete
    Clock clocks[stream_count] = {};

    // Clocks are read and written whole: for a compiler, what has a name is far cheaper than what
    // a pointer leads to.
    for (std::uint32_t id = 1; id <= 2 * n; ++id) {
      Step& step = steps[(id - 1) % n];
      const auto self = static_cast<std::size_t>(step.stream);
      Clock need{};
      for (const Access access : step) {
        const auto space = static_cast<std::size_t>(access.space);
        const std::size_t buffer = first[space] + access.index;
        if (buffer >= first[space + 1]) continue;  // the rules will say so
        Shadow shadow = shadows[buffer];
        if (need.at[shadow.writer] < shadow.write) need.at[shadow.writer] = shadow.write;
        if (access.mode == Mode::read) {
          shadow.reads.at[self] = id;
        } else {
          for (std::size_t t = 0; t < stream_count; ++t) {
            if (need.at[t] < shadow.reads.at[t]) need.at[t] = shadow.reads.at[t];
          }
          shadow.write = id;  // reads before it stay, since whoever knows the write knows them
          shadow.writer = self;
        }
        shadows[buffer] = shadow;
      }
      Clock mine = clocks[self];
      mine.at[self] = id;
      if (id > n) step.signals = false;
      const Clock before = mine;
      for (std::size_t t = 0; t < stream_count; ++t) {
        if (id > n) step.waits[t] = no_wait;
        const std::uint32_t wait = need.at[t];
        if (wait <= before.at[t]) continue;
        bool covered = false;
        for (std::size_t v = 0; v < stream_count && !covered; ++v) {
          covered = need.at[v] > before.at[v] && v != t && known[need.at[v]].at[t] >= wait;
        }
        if (covered) continue;
        const Clock theirs = known[wait];
        for (std::size_t v = 0; v < stream_count; ++v) {
          if (mine.at[v] < theirs.at[v]) mine.at[v] = theirs.at[v];
        }
        if (id > n) step.waits[t] = (wait - 1) % n;
      }
      clocks[self] = known[id] = mine;
    }
    for (std::uint32_t i = 0; i < n; ++i) {
      for (const std::uint32_t wait : steps[i].waits) {
        if (wait != no_wait) steps[wait].signals = true;
      }
    }
  }

 private:
  struct Clock {  // steps are counted from 1; 0 = none
    std::uint32_t at[stream_count] = {};
  };
  struct Shadow {  // of one buffer
    Clock reads{};
    std::uint32_t write = 0;
    std::size_t writer = 0;
  };
  detail::Scratch<Shadow> buffers_{};
  detail::Scratch<Clock> implied_{};
};

/// The same with room of its own.
constexpr void find_waits(Schedule& schedule) { WaitFinder{}.find(schedule); }

}  // namespace zero
