// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Contents: checks what the buffers hold, R1 to R4, R7, R8. Includes schedule/ only.
#pragma once

#include <zero/schedule/detail/fetched_states.hpp>
#include <zero/schedule/detail/kept_activations.hpp>
#include <zero/schedule/detail/operands.hpp>
#include <zero/schedule/detail/scratch.hpp>
#include <zero/schedule/detail/windows.hpp>
#include <zero/schedule/rules.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero::detail {

/// What each buffer holds, step by step in issue order. At the end all is as it was at the begin,
/// so the next execution goes the same way. Trusts neither builder nor waits.
class Contents {
 public:
  constexpr Finding check(const Schedule& schedule) {
    if (const Finding f = begin(schedule); f.rule != Rule::none) return f;
    const Step* const steps = schedule.steps.data();
    const auto n = static_cast<std::uint32_t>(schedule.steps.size());
    for (std::uint32_t i = 0; i < n; ++i) {
      Rule rule = apply(steps[i]);
      for (const Access& a : steps[i]) {
        if (rule == Rule::none && a.index >= extent(schedule, a.space)) rule = Rule::bound;
      }
      if (rule != Rule::none) return {rule, i, i, steps[i].subject};
    }
    if (const Rule rule = at_end(); rule != Rule::none) return {rule, n, n, 0};
    return {};
  }
  /// See Verifier::reserve.
  constexpr void reserve(const ModelShape& model, std::size_t buffers, std::size_t micro_steps,
                         std::size_t uses) {
    params_.reserve(buffers), whole_.reserve(buffers);
    activations_.reserve(model, buffers, micro_steps, uses);
    shard_.reserve(model.groups()), groups_.reserve(model.groups());
    states_.reserve(model.groups());
    windows_.reserve(model, micro_steps);
  }

 private:
  struct Params {  // torn: updated on this rank's part only
    Index group = nowhere;
    bool torn = false, updated = false;
  };
  struct Gradient {
    Index group = nowhere;
    bool reduced = false, replicated = false;
    std::size_t parts = 0;
  };
  struct Group {
    std::size_t reduced = 0;  // backwards that are in its reduced gradient
    bool updated = false, normed = false, split = false;  // split: on this replica's part only
  };

  constexpr Finding begin(const Schedule& schedule) {
    s_ = &schedule;
    const std::size_t groups = schedule.model.groups();
    params_.reset(extent(schedule, Space::params_whole));
    whole_.reset(extent(schedule, Space::grads_whole));
    shard_.reset(groups);
    activations_.begin(schedule);
    states_.begin(schedule);
    groups_.reset(groups);
    cursor_ = 0;
    control_begun_ = combined_ = false;
    if (schedule.home.size() != groups) return {Rule::bound, 0, 0, 0};
    for (std::size_t g = 0; g < groups; ++g) {
      if (schedule.home[g] == nowhere) continue;
      if (schedule.home[g] >= params_.size()) return {Rule::bound, 0, 0, index(g)};
      params_[schedule.home[g]].group = index(g);
    }
    return windows_.begin(schedule);
  }
  constexpr Rule apply(const Step& step) {
    const std::size_t subject = step.subject;
    const std::size_t subjects = computes(step.op) ? s_->model.units() : groups_.size();
    if (subject >= subjects && step.op != Op::combine) return Rule::bound;
    if (s_->traits.takes_turns && communicates(step.op) &&
        !touches(step, Space::device, Mode::update, 0)) {
      return Rule::waits;
    }
    switch (step.op) {
      case Op::none: return Rule::none;
      case Op::gather: return gather(step, subject);
      case Op::release: return release(step, subject);
      case Op::forward: return forward(step, subject);
      case Op::backward: return backward(step, subject);
      case Op::reduce_scatter:
      case Op::all_reduce: return reduce(step, subject);
      case Op::all_reduce_replicas:
      case Op::reduce_scatter_replicas: return reduce_replicas(step, subject);
      case Op::gather_replicas: return gather_replicas(step, subject);
      case Op::square_norm: return square_norm(step, subject);
      case Op::combine: return combine(step);
      case Op::update: return update(step, subject);
      case Op::fetch_state: return states_.fetch(step, subject);
      case Op::store_state: return states_.store(step, subject);
    }
    return Rule::order;
  }
  constexpr Rule at_end() const {
    if (cursor_ != s_->program.computes.size()) return Rule::order;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].updated != (windows_.expected(g) != 0)) return Rule::updated_once;
      if (groups_[g].split) return Rule::balanced;
    }
    if (combined_ != s_->program.updates) return Rule::updated_once;
    if (!states_.all_stored()) return Rule::balanced;
    for (std::size_t slot = 0; slot < params_.size(); ++slot) {
      const Params& p = params_[slot];
      if (p.group != nowhere && (p.torn || s_->home[p.group] != slot)) return Rule::balanced;
    }
    return all_free(whole_) && all_free(shard_) ? Rule::none : Rule::reduced_once;
  }

  static constexpr Index index(std::size_t i) { return static_cast<Index>(i); }
  template <class Cell>
  static constexpr bool holds(const Scratch<Cell>& cells, Index at, std::size_t group) {
    return at < cells.size() && cells[at].group == group;
  }
  constexpr bool complete(std::size_t g) const {
    return groups_[g].reduced == windows_.expected(g);
  }
  constexpr bool final(const Gradient* g) const {
    return g != nullptr && g->reduced && complete(g->group) &&
           g->replicated == s_->traits.replicates;
  }
  /// The reduced gradient of group g that the step touches in `mode`, or null.
  constexpr Gradient* reduced(const Step& step, std::size_t g, Mode mode) {
    const bool sharded = s_->traits.shards_grads;
    Scratch<Gradient>& cells = sharded ? shard_ : whole_;
    const Access access = find(step, sharded ? Space::grads_shard : Space::grads_whole);
    if (access.mode != mode || !holds(cells, access.index, g)) return nullptr;
    return cells[access.index].reduced ? &cells[access.index] : nullptr;
  }
  /// A gradient begins by writing to an empty cell, and goes on by adding to its own.
  static constexpr bool adds(const Gradient& cell, Mode mode, std::size_t g, bool closed) {
    if (mode == Mode::write) return cell.group == nowhere;
    return mode == Mode::update && cell.group == g && !closed;
  }

  constexpr Rule gather(const Step& step, std::size_t g) {
    const Access to = find(step, Space::params_whole);
    if (to.index >= params_.size()) return Rule::bound;
    Params& slot = params_[to.index];
    if (groups_[g].split) return Rule::balanced;  // a part of the shard is not current
    if (to.index == s_->home[g]) {                // in place
      if (slot.group != g || !slot.torn || to.mode != Mode::update) return Rule::balanced;
      slot.torn = false;
      return Rule::none;
    }
    if (!touches(step, Space::params_shard, Mode::read, g) || to.mode != Mode::write) {
      return Rule::whole;
    }
    if (slot.group != nowhere) return Rule::balanced;
    slot = Params{index(g), false, groups_[g].updated};
    return Rule::none;
  }
  constexpr Rule gather_replicas(const Step& step, std::size_t g) {
    const Index home = s_->home[g];
    const Space space = home == nowhere ? Space::params_shard : Space::params_whole;
    if (!groups_[g].split || !touches(step, space, Mode::update, home == nowhere ? g : home)) {
      return Rule::balanced;
    }
    groups_[g].split = false;
    return Rule::none;
  }
  constexpr Rule release(const Step& step, std::size_t g) {
    const Access slot = find(step, Space::params_whole);
    const bool held = slot.mode == Mode::write && holds(params_, slot.index, g);
    if (!held || slot.index == s_->home[g]) return Rule::balanced;
    params_[slot.index] = Params{};
    return Rule::none;
  }
  constexpr bool in_order(const Step& step) const {
    if (cursor_ == s_->program.computes.size()) return false;
    return is_of(step, s_->program.computes[cursor_]) &&
           touches(step, Space::flow, Mode::update, 0);
  }
  constexpr Rule reads_params(const Step& step, std::size_t unit) const {
    std::size_t nth = 0;
    for (const Index g : s_->model.unit(unit)) {
      const Access from = find(step, Space::params_whole, nth++);
      if (from.mode != Mode::read || !holds(params_, from.index, g)) return Rule::whole;
      const Params& slot = params_[from.index];
      if (slot.torn || slot.updated != groups_[g].updated) return Rule::whole;
    }
    return Rule::none;
  }
  constexpr Rule forward(const Step& step, std::size_t unit) {
    if (!in_order(step)) return Rule::order;
    const Compute& now = s_->program.computes[cursor_];
    const Access to = find(step, Space::activations);
    if (const Rule rule = activations_.write(to, now, cursor_); rule != Rule::none) return rule;
    ++cursor_;
    return reads_params(step, unit);
  }
  constexpr Rule backward(const Step& step, std::size_t unit) {
    if (!in_order(step)) return Rule::order;
    const Compute& now = s_->program.computes[cursor_];
    const Access from = find(step, Space::activations);
    if (const Rule rule = activations_.read(from, now); rule != Rule::none) return rule;
    if (const Rule rule = reads_params(step, unit); rule != Rule::none) return rule;
    std::size_t nth = 0;
    for (const Index g : s_->model.unit(unit)) {
      if (s_->model.group(g).frozen) continue;
      const Access to = find(step, Space::grads_whole, nth++);
      if (to.index >= whole_.size()) return Rule::bound;
      Gradient& gradient = whole_[to.index];
      if (!adds(gradient, to.mode, g, gradient.reduced)) return Rule::reduced_once;
      gradient.group = g;
      ++gradient.parts;
      windows_.add(g, step.micro_step);
    }
    ++cursor_;
    return Rule::none;
  }
  constexpr Rule reduce(const Step& step, std::size_t g) {
    const Access from = find(step, Space::grads_whole);
    if (!holds(whole_, from.index, g) || whole_[from.index].reduced) return Rule::reduced_once;
    if (windows_.open(g)) return Rule::reduced_once;  // a backward has still to add
    if ((step.op == Op::reduce_scatter) != s_->traits.shards_optimizer) return Rule::reduced_once;
    Gradient& whole = whole_[from.index];
    groups_[g].reduced += whole.parts;
    if (!s_->traits.shards_grads) {  // in place
      if (from.mode != Mode::update) return Rule::reduced_once;
      whole.reduced = true;
      return Rule::none;
    }
    const Access to = find(step, Space::grads_shard);
    if (from.mode != Mode::read || to.index != g) return Rule::reduced_once;
    if (!adds(shard_[g], to.mode, g, shard_[g].replicated)) return Rule::reduced_once;
    shard_[g] = Gradient{index(g), true, false, 0};
    whole = Gradient{};
    return Rule::none;
  }
  constexpr Rule reduce_replicas(const Step& step, std::size_t g) {
    Gradient* gradient = reduced(step, g, Mode::update);
    const bool shards = step.op == Op::reduce_scatter_replicas;
    if (shards != s_->traits.shards_replicas || gradient == nullptr || gradient->replicated ||
        !complete(g)) {
      return Rule::reduced_once;
    }
    gradient->replicated = true;
    return Rule::none;
  }
  /// The first to touch control overwrites it.
  constexpr bool adds_to_control(const Step& step) {
    const Mode mode = control_begun_ ? Mode::update : Mode::write;
    control_begun_ = true;
    return touches(step, Space::control, mode, 0);
  }
  constexpr Rule square_norm(const Step& step, std::size_t g) {
    const bool is_final = final(reduced(step, g, Mode::read));
    if (!is_final || groups_[g].normed || !adds_to_control(step)) return Rule::updated_once;
    groups_[g].normed = true;
    return Rule::none;
  }
  constexpr Rule combine(const Step& step) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (!complete(g)) return Rule::reduced_once;
      if (windows_.expected(g) != 0 && !groups_[g].normed) return Rule::updated_once;
    }
    if (!s_->program.updates || combined_ || !adds_to_control(step)) return Rule::updated_once;
    combined_ = true;
    return Rule::none;
  }
  constexpr Rule update(const Step& step, std::size_t g) {
    Gradient* gradient = reduced(step, g, Mode::read);
    if (!final(gradient) || groups_[g].updated || !combined_ ||
        !touches(step, Space::control, Mode::read, 0) || !states_.update(step, g)) {
      return Rule::updated_once;
    }
    const Index home = s_->home[g];
    const bool in_place = home != nowhere;
    const Space target = in_place ? Space::params_whole : Space::params_shard;
    if (!touches(step, target, Mode::update, in_place ? home : g)) return Rule::updated_once;
    if (in_place) params_[home] = Params{index(g), s_->traits.shards_optimizer, true};
    *gradient = Gradient{};
    groups_[g].updated = true;
    groups_[g].split = s_->traits.shards_replicas;
    return Rule::none;
  }

  const Schedule* s_ = nullptr;
  Scratch<Params> params_{};             // [slot]
  Scratch<Gradient> whole_{}, shard_{};  // [slot], [group]
  KeptActivations activations_{};
  FetchedStates states_{};
  Scratch<Group> groups_{};
  Windows windows_{};
  std::size_t cursor_ = 0;  // place in the program
  bool control_begun_ = false, combined_ = false;
};

}  // namespace zero::detail
