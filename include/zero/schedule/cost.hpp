// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What a schedule costs: elements held and sent, time on a machine. Includes schedule/ only.
#pragma once

#include <zero/base/list.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero {

/// How many steps do that.
constexpr std::size_t count(const Schedule& schedule, Op op) {
  std::size_t n = 0;
  for (const Step& step : schedule.steps) n += step.op == op;
  return n;
}
/// How many waits there are.
constexpr std::size_t count_waits(const Schedule& schedule) {
  std::size_t n = 0;
  for (const Step& step : schedule.steps) {
    for (const std::uint32_t wait : step.waits) n += wait != no_wait;
  }
  return n;
}

/// Most slots of params_whole that hold a gathered group at once, in issue order.
constexpr std::size_t peak_whole(const Schedule& schedule) {
  std::size_t live = 0, peak = 0;
  for (const Step& step : schedule.steps) {
    if (step.op == Op::release) --live;
    if (step.op != Op::gather || schedule.home[step.subject] != nowhere) continue;
    if (++live > peak) peak = live;
  }
  return peak;
}

/// Elements that one rank sends in one execution, by kind of communication.
struct ElementsSent {
  std::size_t gathered = 0, reduced = 0;  // within a replica; weights, gradients
  std::size_t replicated = 0;             // gradients, across replicas
  std::size_t gathered_replicas = 0;      // weights, across replicas
  friend constexpr bool operator==(const ElementsSent&, const ElementsSent&) = default;
};
/// Counts them, if group g has `elements(g)` elements. The few bytes of `combine` are left out.
///
/// Moves:   of E elements, all_gather and reduce_scatter send E (N-1)/N, all_reduce twice that.
/// Pre:     elements(g) is a multiple of ranks * replicas; else parts are rounded down.
/// Source:  ring algorithms; Rajbhandari et al., ZeRO, 2020, section 7.
template <class Elements>
constexpr ElementsSent traffic(const Schedule& schedule, Elements elements, std::size_t ranks,
                               std::size_t replicas = 1) {
  ElementsSent sent{};
  for (const Step& step : schedule.steps) {
    if (!communicates(step.op) || step.op == Op::combine) continue;
    const std::size_t part = elements(step.subject) / ranks;
    if (step.op == Op::gather) sent.gathered += part * (ranks - 1);
    if (step.op == Op::reduce_scatter) sent.reduced += part * (ranks - 1);
    if (step.op == Op::all_reduce) sent.reduced += 2 * part * (ranks - 1);
    const std::size_t held = schedule.traits.shards_optimizer ? part : part * ranks;
    const std::size_t across = held / replicas * (replicas - 1);
    if (step.op == Op::all_reduce_replicas) sent.replicated += 2 * across;
    if (step.op == Op::reduce_scatter_replicas) sent.replicated += across;
    if (step.op == Op::gather_replicas) sent.gathered_replicas += across;
  }
  return sent;
}

/// Makes sizes[slot] at least as large as the largest group that is ever in that slot of `space`,
/// if group g has `elements(g)` elements.
template <class Elements>
constexpr void fit_slots(const Schedule& schedule, Space space, Elements elements,
                         List<std::size_t>& sizes) {
  if (sizes.size() < extent(schedule, space)) sizes.resize(extent(schedule, space), 0);
  const auto fit = [&](std::size_t slot, std::size_t group) {
    if (sizes[slot] < elements(group)) sizes[slot] = elements(group);
  };
  for (const Step& step : schedule.steps) {
    const Access* access = step.begin();
    const auto next = [&] {
      while (access != step.end() && access->space != space) ++access;
      return access != step.end();
    };
    if (!computes(step.op)) {
      if (next()) fit(access->index, step.subject);
      continue;
    }
    for (const Index g : schedule.model.unit(step.subject)) {
      if (space == Space::grads_whole && schedule.model.group(g).frozen) continue;
      if (next()) fit((access++)->index, g);
    }
  }
}

/// Elements that one rank holds in each space.
struct Footprint {
  std::size_t elements[space_count] = {};  // by space
  /// Elements in a space.
  constexpr std::size_t operator[](Space space) const {
    return elements[static_cast<std::size_t>(space)];
  }
};
/// Counts them, if group g has `elements(g)` elements. A slot is as large as the largest group that
/// ever is in it. Activations, flow and control are not counted.
template <class Elements>
constexpr Footprint footprint(const Schedule& schedule, Elements elements, std::size_t ranks,
                              std::size_t replicas = 1) {
  Footprint held{};
  const auto add = [&](Space space, std::size_t added) {
    held.elements[static_cast<std::size_t>(space)] += added;
  };
  for (const Space space : {Space::params_whole, Space::grads_whole}) {
    List<std::size_t> sizes{};
    fit_slots(schedule, space, elements, sizes);
    for (const std::size_t size : sizes) add(space, size);
  }
  for (std::size_t g = 0; g < schedule.model.groups(); ++g) {
    const std::size_t part = elements(g) / ranks;
    if (schedule.home[g] == nowhere) add(Space::params_shard, part);
    if (schedule.model.group(g).frozen) continue;
    if (schedule.traits.shards_grads) add(Space::grads_shard, part);
    add(Space::optimizer, schedule.traits.shards_replicas    ? part / replicas
                          : schedule.traits.shards_optimizer ? part
                                                             : elements(g));
  }
  return held;
}

/// When a step runs, in microseconds.
struct Span {
  double begin = 0, end = 0;  // of the step
};
/// When each step runs if `duration(step)` is how long it takes alone. Streams run side by side;
/// with `one_communicator`, collectives run one by one in issue order, as NCCL runs them.
template <class Duration>
constexpr List<Span> timeline(const Schedule& schedule, Duration duration,
                              std::size_t executions = 1, bool one_communicator = true) {
  const std::size_t n = schedule.steps.size();
  List<Span> spans(n * executions, Span{});
  double free[stream_count] = {};
  double communicators[2] = {};  // within a group of shards; across replicas
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Step& step = schedule.steps[i % n];
    double begin = free[static_cast<std::size_t>(step.stream)];
    const auto after = [&](double time) {
      if (begin < time) begin = time;
    };
    for (const std::uint32_t wait : step.waits) {
      if (wait == no_wait) continue;
      const std::size_t base = i - i % n;
      if (wait < i % n) {
        after(spans[base + wait].end);
      } else if (i >= n) {
        after(spans[base - n + wait].end);
      }
    }
    double& communicator = communicators[across_replicas(step.op)];
    if (one_communicator && communicates(step.op)) after(communicator);
    spans[i] = {begin, begin + duration(step)};
    free[static_cast<std::size_t>(step.stream)] = spans[i].end;
    if (communicates(step.op)) communicator = spans[i].end;
  }
  return spans;
}
/// Time of one execution in the steady state.
template <class Duration>
constexpr double step_time(const Schedule& schedule, Duration duration,
                           bool one_communicator = true) {
  const List<Span> spans = timeline(schedule, duration, 4, one_communicator);
  const std::size_t n = schedule.steps.size();
  double end[4] = {};
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (end[i / n] < spans[i].end) end[i / n] = spans[i].end;
  }
  return end[3] - end[2];
}

}  // namespace zero
