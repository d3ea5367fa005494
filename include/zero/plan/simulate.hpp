// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Simulator: a schedule under a virtual clock. May include schedule/ and base/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/schedule/cost.hpp>

namespace zero::plan {

/// What a caller may choose of a simulation.
struct SimulationOptions {
  double contention = 0;         // part of its speed that compute loses while data is moved
  double host_us_per_step = 0;   // the host issues steps one by one, as far ahead as it can
  bool one_communicator = true;  // collectives run one by one in issue order, as NCCL runs them
  /// One after the other. The last but one is reported: where it ends, the next one has begun.
  std::size_t executions = 4;
};

/// One execution in the steady state. Times are microseconds.
struct Simulation {
  double step_us = 0;           // from the end of the execution before to its own
  double compute_us = 0;        // the compute stream works, if nothing slowed it down
  double slowed_us = 0;         // by which contention lengthens that
  double communication_us = 0;  // some collective moves data
  double exposed_us = 0;        // some collective moves data, and the compute stream stands still
  /// In which compute waits, for whatever reason.
  double idle_us() const { return step_us - compute_us - slowed_us; }  // for whatever reason
  double begin_us = 0;  // when the execution before it ended
  List<Span> spans{};   // [step of the schedule]
};

/// Runs the steps of a schedule as the module's executor and the device would: streams in order,
/// waits as they are in the steps, collectives of one communicator in the order of issue. All ranks
/// do the same, so that one is enough, and its time does not depend on how many there are.
///
/// While a step of the compute stream and a collective run at the same time, the former proceeds at
/// 1 - contention of its speed.
///
/// Units:   duration(step) is microseconds that a step takes alone.
/// Errors:  ContractError if a duration is not finite.
template <class Duration>
Simulation simulate(const Schedule& schedule, Duration duration,
                    const SimulationOptions& options = {}) {
  const std::size_t n = schedule.steps.size(), all = n * options.executions;
  constexpr std::size_t none = ~std::size_t{0};
  std::vector<double> work(n);
  std::vector<std::size_t> queue[stream_count];  // positions of each stream's steps
  std::vector<std::size_t> before(n, none);      // the collective that must be over, or none
  std::size_t last_of[2] = {none, none};
  for (std::size_t i = 0; i < n; ++i) {
    const Step& step = schedule.steps[i];
    work[i] = duration(step);
    queue[static_cast<std::size_t>(step.stream)].push_back(i);
    if (!communicates(step.op) || !options.one_communicator) continue;
    const std::size_t c = across_replicas(step.op) ? 1 : 0;
    before[i] = last_of[c];
    last_of[c] = i;
  }
  List<Span> spans(all);
  std::vector<unsigned char> done(all, 0);
  std::size_t head[stream_count] = {};  // counts the steps of a stream that are over
  bool running[stream_count] = {};
  double left[stream_count] = {};
  struct Clock {
    double now = 0, moving = 0, exposed = 0, slowed = 0;
  } clock;
  std::vector<Clock> ends(options.executions);
  std::vector<std::size_t> missing(options.executions, n);  // steps of each execution
  Simulation out;

  const auto id_of = [&](std::size_t s) {
    return head[s] / queue[s].size() * n + queue[s][head[s] % queue[s].size()];
  };
  const auto issued_at = [&](std::size_t id) {
    return static_cast<double>(id + 1) * options.host_us_per_step;
  };
  const auto ready = [&](std::size_t id) {
    const std::size_t i = id % n, base = id - i;
    const Step& step = schedule.steps[i];
    for (const std::uint32_t wait : step.waits) {
      if (wait == no_wait) continue;
      if (wait < i ? !done[base + wait] : base >= n && !done[base - n + wait]) return false;
    }
    if (!communicates(step.op) || !options.one_communicator) return true;
    if (before[i] != none) return done[base + before[i]] != 0;
    const std::size_t c = across_replicas(step.op) ? 1 : 0;
    return base < n || done[base - n + last_of[c]] != 0;
  };
  const auto complete = [&](std::size_t s, std::size_t id) {
    spans[id].end = clock.now;
    done[id] = 1;
    ++head[s];
    if (--missing[id / n] == 0) ends[id / n] = clock;
  };
  const auto over = [&](std::size_t s) {
    return queue[s].empty() || head[s] == queue[s].size() * options.executions;
  };

  for (;;) {
    // Begin what can begin; a step without work is over at once and may let others begin.
    double next_issue = std::numeric_limits<double>::infinity();
    for (bool again = true; again;) {
      again = false;
      for (std::size_t s = 0; s < stream_count; ++s) {
        if (running[s] || over(s)) continue;
        const std::size_t id = id_of(s);
        if (!ready(id)) continue;
        if (issued_at(id) > clock.now) {
          next_issue = std::min(next_issue, issued_at(id));
          continue;
        }
        spans[id].begin = clock.now;
        left[s] = work[id % n];
        if (left[s] > 0) {
          running[s] = true;
          continue;
        }
        complete(s, id);
        again = true;
      }
    }
    constexpr auto compute = static_cast<std::size_t>(StreamId::compute);
    bool moves = false;
    for (std::size_t s = 0; s < stream_count; ++s) {
      moves = moves || (running[s] && communicates(schedule.steps[id_of(s) % n].op));
    }
    const double speed = moves ? 1 - options.contention : 1;
    double wait = next_issue - clock.now;
    for (std::size_t s = 0; s < stream_count; ++s) {
      if (running[s]) wait = std::min(wait, s == compute ? left[s] / speed : left[s]);
    }
    if (!(wait < std::numeric_limits<double>::infinity())) break;  // nothing is left
    clock.now += wait;
    if (moves) clock.moving += wait;
    if (moves && !running[compute]) clock.exposed += wait;
    if (running[compute]) clock.slowed += wait * (1 - speed);
    for (std::size_t s = 0; s < stream_count; ++s) {
      if (!running[s]) continue;
      left[s] -= s == compute ? wait * speed : wait;
      if (left[s] > 1e-9) continue;
      running[s] = false;
      complete(s, id_of(s));
    }
  }
  if (n != 0 && options.executions != 0 && missing.back() != 0) {
    throw ContractError(
        "zero::plan::simulate: a step never ends; expected finite durations, but one is not: check "
        "that no bandwidth or rate of the machine is 0");
  }
  if (options.executions == 0) return out;
  const std::size_t reported = std::max<std::size_t>(options.executions, 2) - 2;
  const Clock earlier = reported == 0 ? Clock{} : ends[reported - 1], last = ends[reported];
  out.begin_us = earlier.now;
  out.step_us = last.now - earlier.now;
  out.communication_us = last.moving - earlier.moving;
  out.exposed_us = last.exposed - earlier.exposed;
  out.slowed_us = last.slowed - earlier.slowed;
  for (std::size_t i = 0; i < n; ++i) {
    if (schedule.steps[i].stream == StreamId::compute) out.compute_us += work[i];
  }
  const auto first = spans.begin() + static_cast<std::ptrdiff_t>(reported * n);
  out.spans.assign(first, first + static_cast<std::ptrdiff_t>(n));
  return out;
}

/// Bytes at a time.
struct MemoryAt {
  double us = 0, bytes = 0;  // when, and how many are held then
};
/// What lives in slots and activations while one execution runs: a group from the begin of its
/// gather to its release, a whole gradient from its first backward to the end of its reduction, the
/// activations of a unit from its forward to the end of its backward, and what its backward needs
/// for itself. Slots are reserved, so that a device holds the most of it all the time; the curve
/// says when it is needed.
///
/// Units:   bytes of a whole group's weights, of its gradient, of a unit's activations, of what its
///          backward needs.
template <class Weight, class Gradient, class Activation, class Working>
std::vector<MemoryAt> memory_over_time(const Schedule& schedule, std::span<const Span> spans,
                                       Weight weight, Gradient gradient, Activation activation,
                                       Working working) {
  std::vector<MemoryAt> changes;
  std::vector<bool> accumulates(schedule.model.groups(), false);
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    const std::size_t subject = step.subject;
    const bool slots =
        !computes(step.op) && step.op != Op::combine && schedule.home[subject] == nowhere;
    if (step.op == Op::gather && slots) changes.push_back({spans[i].begin, weight(subject)});
    if (step.op == Op::release && slots) changes.push_back({spans[i].end, -weight(subject)});
    if (step.op == Op::forward) changes.push_back({spans[i].begin, activation(subject)});
    if (step.op == Op::backward) {
      changes.push_back({spans[i].begin, working(subject)});
      changes.push_back({spans[i].end, -activation(subject) - working(subject)});
      for (const Index g : schedule.model.unit(subject)) {
        if (!schedule.traits.shards_grads || accumulates[g]) continue;
        accumulates[g] = true;
        changes.push_back({spans[i].begin, gradient(g)});
      }
    }
    if (step.op == Op::reduce_scatter && accumulates[subject] && schedule.traits.shards_grads) {
      accumulates[subject] = false;
      changes.push_back({spans[i].end, -gradient(subject)});
    }
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const MemoryAt& a, const MemoryAt& b) { return a.us < b.us; });
  double bytes = 0;
  for (MemoryAt& change : changes) change.bytes = bytes += change.bytes;
  return changes;
}

}  // namespace zero::plan
