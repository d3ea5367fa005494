// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Races: checks the order of accesses, R5, R6, R9, R10. Includes schedule/ only.
#pragma once

#include <zero/schedule/detail/scratch.hpp>
#include <zero/schedule/rules.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero::detail {

/// R9, as far as it speaks of waits.
constexpr Finding check_waits(const Schedule& schedule) {
  const Step* const steps = schedule.steps.data();
  const std::size_t n = schedule.steps.size();
  for (std::uint32_t i = 0; i < n; ++i) {
    for (std::size_t t = 0; t < stream_count; ++t) {
      const std::uint32_t wait = steps[i].waits[t];
      if (wait == no_wait) continue;
      const auto stream = static_cast<StreamId>(t);
      const bool ok = wait < n && steps[wait].signals && steps[wait].stream == stream &&
                      steps[i].stream != stream;
      if (!ok) return {Rule::waits, i, wait, steps[i].subject};
    }
  }
  return {};
}

/// R5, R6, R10, over two executions in a row. Shares neither code nor method with WaitFinder.
///
/// Works from the end: `after[a].at[t]` is the first step of stream t that is ordered after a. A
/// conflict of a and a later b is ordered if b is not before after[a].at[stream of b].
class Races {
 public:
  /// Obtains room for schedules of that many steps and buffers.
  constexpr void reserve(std::size_t steps, std::size_t buffers) {
    rows_.reserve(2 * steps);
    buffers_.reserve(buffers);
  }
  /// Pre:     check_waits found nothing, and no access is beyond the extent of its space.
  constexpr Finding check(const Schedule& schedule) {
    const Step* const steps = schedule.steps.data();
    const auto n = static_cast<std::uint32_t>(schedule.steps.size());
    order(steps, n);
    std::size_t first[space_count + 1] = {};  // where a space begins in `last`
    for (std::size_t s = 0; s < space_count; ++s) first[s + 1] = first[s] + schedule.extent[s];
    buffers_.reset(first[space_count]);
    Last* const last = buffers_.data();
    // The first execution is only remembered: the second has all its conflicts and more.
    for (std::uint32_t a = 0; a < n; ++a) {
      const auto self = static_cast<std::size_t>(steps[a].stream);
      for (const Access access : steps[a]) {
        Last& buffer = last[first[static_cast<std::size_t>(access.space)] + access.index];
        (access.mode == Mode::read ? buffer.reads.at[self] : buffer.write) = a;
      }
    }
    for (std::uint32_t i = 0; i < n; ++i) {
      const Step& step = steps[i];
      const auto self = static_cast<std::size_t>(step.stream);
      for (const Access access : step) {
        Last& buffer = last[first[static_cast<std::size_t>(access.space)] + access.index];
        const bool reads = access.mode == Mode::read;
        if (const std::uint32_t a = conflict(buffer, reads, self, n + i); a != no_wait) {
          const Step& other = steps[a % n];
          const bool slot =
              access.space == Space::params_whole && (manages(step.op) || manages(other.op));
          const Rule rule = a < n ? Rule::boundary : slot ? Rule::lifetime : Rule::no_race;
          return {rule, a % n, i, step.subject};
        }
        // Reads before a write stay, since they are ordered before it.
        (reads ? buffer.reads.at[self] : buffer.write) = n + i;
      }
    }
    return {};
  }

 private:
  struct Row {
    std::uint32_t at[stream_count] = {no_wait, no_wait, no_wait, no_wait, no_wait};
  };
  struct Last {  // of each buffer
    std::uint32_t write = no_wait;
    Row reads{};
  };

  static constexpr bool manages(Op op) { return op == Op::gather || op == Op::release; }
  /// A step that conflicts with b, which is of stream `self`, and is not ordered before it.
  constexpr std::uint32_t conflict(Last buffer, bool reads, std::size_t self,
                                   std::uint32_t b) const {
    const Row* const after = rows_.data();
    if (const std::uint32_t a = buffer.write; a != no_wait && after[a].at[self] > b) return a;
    if (reads) return no_wait;
    for (std::size_t t = 0; t < stream_count; ++t) {
      const std::uint32_t a = buffer.reads.at[t];
      if (a != no_wait && after[a].at[self] > b) return a;
    }
    return no_wait;
  }
  /// The earlier of two, stream by stream.
  static constexpr Row earlier(Row row, Row other) {
    for (std::size_t t = 0; t < stream_count; ++t) {
      if (other.at[t] < row.at[t]) row.at[t] = other.at[t];
    }
    return row;
  }
  constexpr void order(const Step* steps, std::uint32_t n) {
    rows_.reset(2 * std::size_t{n});
    Row* const after = rows_.data();
    Row next{};  // of each stream, in issue order
    for (std::uint32_t a = 2 * n, i = n; a-- > 0;) {
      i = i == 0 ? n - 1 : i - 1;
      const Step& step = steps[i];
      const auto self = static_cast<std::size_t>(step.stream);
      Row row = after[a];
      if (next.at[self] != no_wait) row = earlier(row, after[next.at[self]]);
      row.at[self] = next.at[self] = a;
      after[a] = row;
      for (std::size_t t = 0; t < stream_count; ++t) {
        const std::uint32_t wait = step.waits[t];
        if (wait == no_wait) continue;
        const std::uint32_t target = wait < i ? a - i + wait : wait;
        if (target < a) after[target] = earlier(after[target], row);
        // else it is in the execution before the first
      }
    }
  }

  Scratch<Row> rows_{};
  Scratch<Last> buffers_{};
};

}  // namespace zero::detail
