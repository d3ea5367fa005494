// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ScheduleBuilder: what a policy may ask and do. Includes schedule/ only.
#pragma once

#include <zero/schedule/detail/program_index.hpp>
#include <zero/schedule/detail/slot_pool.hpp>
#include <zero/schedule/detail/state_queue.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero {

/// Turns verbs on units into steps with operands, and hands out slots. What it reserved for one
/// schedule serves the next.
class ScheduleBuilder {
 public:
  // What a policy may ask.
  constexpr const ModelShape& model() const { return out_->model; }   // the units and groups
  constexpr const Program& program() const { return out_->program; }  // what is computed
  constexpr std::size_t units() const { return held_.size(); }        // how many there are
  constexpr bool is_last(std::size_t unit) const { return unit + 1 == units(); }  // of a forward
  constexpr std::size_t micro_step() const { return micro_step_; }  // that computes now
  /// The unit that computes `k` computes from now, or nowhere past the end; ahead(0) computes now.
  constexpr Index ahead(std::size_t k) const {
    return k < count_ - place_ ? computes_[place_ + k].unit : nowhere;
  }
  /// How many computes from now `unit` computes again, this one not counted; or `never`.
  constexpr std::size_t next_use(std::size_t unit) const {
    const std::size_t next = index_.next(unit);
    return next == never ? never : next - place_;
  }
  /// Whether no further backward of `unit` is to come.
  constexpr bool last_backward(std::size_t unit) const { return index_.backwards_left(unit) == 0; }

  // What a policy may do. A verb whose effect is already there, or not yet possible, or that names
  // `nowhere`, adds no step.
  /// Makes the groups of `unit` whole.
  constexpr void gather(std::size_t unit) {
    if (unit >= units() || held_[unit]) return;
    held_[unit] = true;
    for (const Index g : model().unit(unit)) {
      if (out_->home[g] != nowhere || groups_[g].holders++ > 0) continue;
      groups_[g].params_slot = params_.acquire(model().group(g).kind);
      emit(Op::gather, g);
    }
  }
  /// Gives back the slots of the groups of `unit` that no other unit still holds.
  constexpr void release(std::size_t unit) {
    if (unit >= units() || !held_[unit]) return;
    held_[unit] = false;
    for (const Index g : model().unit(unit)) {
      if (out_->home[g] != nowhere || --groups_[g].holders > 0) continue;
      emit(Op::release, g);
      params_.release(groups_[g].params_slot, model().group(g).kind);
      groups_[g].params_slot = nowhere;
    }
  }
  /// Reduces the gradients of `unit` to which no other unit has still to add in this micro-step;
  /// where gradients are not sharded, in this training step, because it happens in place.
  constexpr void reduce(std::size_t unit) {
    if (unit >= units()) return;
    for (const Index g : model().unit(unit)) {
      GroupState& group = groups_[g];
      if (group.grads_slot == nowhere || group.reduced || index_.open(g)) continue;
      if (!out_->traits.shards_grads && index_.parts_left(g) != 0) continue;
      emit(out_->traits.shards_optimizer ? Op::reduce_scatter : Op::all_reduce, g);
      if (out_->traits.shards_grads) drop_whole_gradient(g);
      group.reduced = !out_->traits.shards_grads;
      if (!out_->traits.replicates && index_.parts_left(g) == 0) emit(Op::square_norm, g);
    }
  }
  /// Sums gradients of `unit` over the replicas after its last backward: whole shards, or parts.
  constexpr void reduce_replicas(std::size_t unit) {
    if (unit >= units()) return;
    for (const Index g : model().unit(unit)) {
      GroupState& group = groups_[g];
      if (!index_.trained(g) || index_.parts_left(g) != 0 || group.replicated) continue;
      group.replicated = true;
      emit(out_->traits.shards_replicas ? Op::reduce_scatter_replicas : Op::all_reduce_replicas, g);
      emit(Op::square_norm, g);
    }
  }
  /// Gathers the shards of `unit` in place, of which each replica updated a part.
  constexpr void publish_replicas(std::size_t unit) {
    if (unit >= units()) return;
    for (const Index g : model().unit(unit)) {
      if (groups_[g].split) emit(Op::gather_replicas, g);
      groups_[g].split = false;
    }
  }
  /// Gathers in place what was updated in place: the groups of `unit` that are always whole.
  constexpr void publish(std::size_t unit) {
    if (unit >= units()) return;
    for (const Index g : model().unit(unit)) {
      if (groups_[g].torn && groups_[g].split) {
        emit(Op::gather_replicas, g);
        groups_[g].split = false;
      }
      if (groups_[g].torn) emit(Op::gather, g);
      groups_[g].torn = false;
    }
  }

  // What Stage calls.

  /// Begins a schedule; see Stage.
  constexpr void begin(Schedule& out, const ModelShape& model, const Program& program,
                       StageTraits traits, Slots params, Slots grads, std::size_t state_slots = 0) {
    out_ = &out;
    out.model = model;
    out.program = program;
    out.traits = traits;
    out.steps.clear();
    computes_ = out.program.computes.data();
    count_ = out.program.computes.size();
    params_.reset(params.grows, model.groups());
    grads_.reset(grads.grows, model.groups());
    params_slots_ = params.count, grads_slots_ = grads.count;
    micro_step_ = place_ = 0;
    control_begun_ = false;
    held_.reset(model.units());
    groups_.reset(model.groups());
    index_.read(model, program);
    states_.line_up(model, index_, state_slots);
    if (out.steps.capacity() == 0)
      out.steps.reserve(4 * program.computes.size() + 4 * model.groups() + 1);
  }
  /// Obtains room for programs of that many computes and micro-steps.
  constexpr void reserve(const ModelShape& model, std::size_t computes, std::size_t micro_steps) {
    index_.reserve(model, computes, micro_steps);
  }
  /// Keeps the groups of `unit` whole at all times; comes before place_slots.
  constexpr void keep_whole(std::size_t unit) {
    for (const Index g : model().unit(unit)) groups_[g].resident = true;
  }
  /// Says which groups are always whole.
  constexpr void place_slots() {
    std::size_t kinds = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (kinds <= model().group(g).kind) kinds = model().group(g).kind + std::size_t{1};
    }
    kinds_.reset(kinds);
    out_->home.clear();
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const Index kind = model().group(g).kind;
      if (model().group(g).whole) groups_[g].resident = true;
      // Also of what this program leaves out, so that the others lie where they always do.
      const bool trains = program().updates && !model().group(g).frozen;
      if (trains && kinds_[kind].grads++ < grads_slots_) grads_.add(kind);
      out_->home.push_back(groups_[g].resident ? params_.reserve() : nowhere);
      groups_[g].params_slot = out_->home[g];
      if (!groups_[g].resident && kinds_[kind].params++ < params_slots_) params_.add(kind);
    }
  }
  /// Goes to the compute at `place` of the program.
  constexpr Compute go_to(std::size_t place) {
    const Compute compute = computes_[place];
    place_ = place;
    micro_step_ = compute.micro_step;
    set_ = index_.set_of(compute);
    index_.go_to(compute.unit, place);
    return compute;
  }
  /// Adds a compute.
  constexpr void compute(Compute compute) {
    emit(compute.op, compute.unit);
    if (compute.op == Op::backward) index_.pass_backward(out_->model, compute);
  }
  constexpr void combine() { emit(Op::combine, 0); }  // adds the norm and the decision of all ranks
  /// Fetches the optimizer state of those groups that are updated next, as far as slots are free.
  constexpr void fetch_states() {
    if (!out_->traits.offloads()) return;
    for (Index g = states_.fetch(); g != nowhere; g = states_.fetch()) emit(Op::fetch_state, g);
  }
  /// Adds the updates of a unit's groups.
  constexpr void update(std::size_t unit) {
    for (const Index g : model().unit(unit)) {
      GroupState& group = groups_[g];
      if (!index_.trained(g) || group.updated) continue;
      group.updated = true;
      emit(Op::update, g);
      if (states_.slot(g) != nowhere) emit(Op::store_state, g);
      states_.give_back(g);
      fetch_states();
      group.torn = out_->traits.shards_optimizer && out_->home[g] != nowhere;
      group.split = out_->traits.shards_replicas;
      if (!out_->traits.shards_grads) drop_whole_gradient(g);
    }
  }
  /// Counts the buffers.
  constexpr void finish() {
    const auto groups = static_cast<Index>(groups_.size());
    const auto activations = static_cast<Index>(held_.size() * index_.sets());
    const Index extent[space_count] = {
        groups, params_.size(), grads_.size(), groups, groups, activations, 1, 1,
        1,      states_.size()};
    for (std::size_t i = 0; i < space_count; ++i) out_->extent[i] = extent[i];
  }

 private:
  struct GroupState {
    Index params_slot = nowhere, grads_slot = nowhere;
    bool resident = false, shard_begun = false, reduced = false, replicated = false;
    bool updated = false, torn = false, split = false;
    std::size_t holders = 0;  // units that hold it whole
  };
  struct KindCount {
    std::size_t params = 0, grads = 0;
  };

  /// One more than asked for only where all of this kind wait for a backward.
  constexpr Index slot_for_gradient(Index kind) {
    if (const Index slot = grads_.acquire(kind); slot != nowhere) return slot;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].grads_slot == nowhere || model().group(g).kind != kind) continue;
      bool waits = index_.open(g);
      for (const Index now : model().unit(computes_[place_].unit)) waits = waits || now == g;
      if (!waits) return nowhere;
    }
    return grads_.reserve();
  }
  constexpr void drop_whole_gradient(std::size_t g) {
    if (groups_[g].grads_slot == nowhere) return;  // a policy's mistake, which the rules report
    grads_.release(groups_[g].grads_slot, model().group(g).kind);
    groups_[g].grads_slot = nowhere;
  }
  constexpr void emit(Op op, std::size_t subject) {
    const bool after_replicas = op == Op::square_norm && out_->traits.replicates;
    const OpInfo& known = info(op);
    const bool of_unit = computes(op);
    Step step{};
    step.op = op;
    step.stream = after_replicas ? StreamId::replicate : known.stream;
    step.subject = static_cast<Index>(subject);
    step.micro_step = static_cast<Index>(micro_step_);
    for (const Operand operand : known.operands) {
      if (operand.mode == Mode::none) break;
      if (of_unit &&
          (operand.space == Space::params_whole || operand.space == Space::grads_whole)) {
        for (const Index g : model().unit(subject)) {
          if (operand.space == Space::grads_whole && !index_.trained(g)) continue;
          step.add(locate(operand, g));
        }
      } else {
        step.add(locate(operand, subject));
      }
    }
    if (out_->traits.takes_turns && communicates(op)) step.add({Space::device, Mode::update, 0});
    out_->steps.push_back(step);
  }
  /// Where `operand` lives. The first update of a gradient in its window, or of control,
  /// overwrites.
  constexpr Access locate(Operand operand, std::size_t subject) {
    const auto index = static_cast<Index>(subject);
    switch (operand.space) {
      case Space::params_shard:
        if (out_->home[subject] == nowhere) return {operand.space, operand.mode, index};
        return {Space::params_whole, operand.mode, groups_[subject].params_slot};
      case Space::params_whole: return {operand.space, operand.mode, groups_[subject].params_slot};
      case Space::state_slot:
        if (!out_->traits.offloads()) return {Space::optimizer, operand.mode, index};
        return {operand.space, operand.mode, states_.slot(subject)};
      case Space::grads_shard:
        if (!out_->traits.shards_grads)
          return {Space::grads_whole, operand.mode, groups_[subject].grads_slot};
        return {operand.space, mode(operand, groups_[subject].shard_begun), index};
      case Space::grads_whole:
        if (operand.mode == Mode::update && groups_[subject].grads_slot == nowhere) {
          groups_[subject].grads_slot = slot_for_gradient(model().group(subject).kind);
          return {operand.space, Mode::write, groups_[subject].grads_slot};
        }
        return {operand.space, operand.mode, groups_[subject].grads_slot};
      case Space::activations:
        return {operand.space, operand.mode, static_cast<Index>(subject + set_ * units())};
      case Space::flow: return {operand.space, operand.mode, 0};
      case Space::control: return {operand.space, mode(operand, control_begun_), 0};
      default: return {operand.space, operand.mode, index};
    }
  }
  /// How an operand touches a sum, which the first update begins.
  static constexpr Mode mode(Operand operand, bool& begun) {
    if (operand.mode != Mode::update || begun) return operand.mode;
    begun = true;
    return Mode::write;
  }

  Schedule* out_ = nullptr;
  const Compute* computes_ = nullptr;  // of its program
  std::size_t count_ = 0;              // of computes
  detail::ProgramIndex index_{};
  detail::SlotPool params_{}, grads_{};
  detail::StateQueue states_{};
  detail::Scratch<bool> held_{};  // [unit] whole
  detail::Scratch<GroupState> groups_{};
  detail::Scratch<KindCount> kinds_{};
  std::size_t params_slots_ = 0, grads_slots_ = 0, micro_step_ = 0, place_ = 0, set_ = 0;
  bool control_begun_ = false;
};

}  // namespace zero
