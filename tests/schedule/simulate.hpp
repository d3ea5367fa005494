// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// An adversary: runs a schedule on toy ranks whose streams advance in any order that waits allow,
// and compares every parameter and output with an unsharded reference. Arithmetic is modulo 2^64,
// hence exact.
#pragma once

#include <algorithm>
#include <random>
#include <vector>
#include <zero/schedule/schedule.hpp>

namespace simulated {
using namespace zero;
using Word = std::uint64_t;
using Words = std::vector<Word>;

inline Word scramble(Word x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
inline Word initial_weight(std::size_t g, std::size_t e) { return scramble(1000 * g + e); }

// The toy layer. What flows from unit to unit is one word forward and one backward.
struct Flow {
  Word forward = 1, backward = 2;
};
inline Word digest(const std::vector<const Words*>& weights) {
  Word sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    for (const Word w : *weights[i]) sum = sum * 31 + w + i;
  }
  return sum;
}
/// The input of a unit: what the unit before gave, and data of this rank.
inline Word input(Word flow, std::size_t rank, std::size_t execution, const Compute& now) {
  return scramble(flow + 7777 + 1000 * rank + 100 * execution + 10 * now.micro_step);
}
inline Word saved(Word x, Word digest) { return x * 17 + digest * 3 + 1; }
inline Word output(Word x, Word digest) { return scramble(x ^ digest); }
inline Word gradient(Word dy, Word act, Word weight, std::size_t i, std::size_t e) {
  return scramble(dy + act * 5 + weight * 11 + i * 1000 + e);
}
inline void backward_flow(Flow& flow, Word act, Word digest) {
  flow.backward = scramble(flow.backward * 3 + flow.forward + act + digest);
}
inline void apply_update(Word& weight, Word& state, Word grad, Word norm) {
  state = state * 31 + grad * (2 * norm + 1);
  weight = weight * 3 + state;
}

struct World {
  std::size_t ranks = 2, replicas = 1, executions = 3;
  std::size_t part = 1;  // elements of a group on one rank
};
inline World world_of(const Schedule& s) {
  return {2, s.traits.replicates ? 2u : 1u, 3, s.traits.shards_replicas ? 2u : 1u};
}

/// The same executions without shards, slots or streams.
struct Reference {
  std::vector<Words> weights, states;
  std::vector<Words> outputs;  // [world rank]
};
inline Reference unsharded(const Schedule& s, World world) {
  const std::size_t size = world.part * world.ranks, groups = s.model.groups();
  const std::size_t world_size = world.ranks * world.replicas;
  Reference ref;
  ref.outputs.resize(world_size);
  for (std::size_t g = 0; g < groups; ++g) {
    ref.states.emplace_back(size, 0);
    ref.weights.emplace_back();
    for (std::size_t e = 0; e < size; ++e) ref.weights[g].push_back(initial_weight(g, e));
  }
  std::vector<Flow> flows(world_size);
  for (std::size_t x = 0; x < world.executions; ++x) {
    std::vector<Words> grads(groups, Words(size, 0));
    std::vector<bool> trained(groups, false);
    for (std::size_t r = 0; r < world_size; ++r) {
      const std::size_t uses = zero::uses(s.program);
      std::vector<Words> kept(s.program.micro_steps * uses, Words(s.model.units(), 0));
      for (const Compute& now : s.program.computes) {
        std::vector<const Words*> weights;
        for (const Index g : s.model.unit(now.unit)) weights.push_back(&ref.weights[g]);
        const Word d = digest(weights);
        Word& act = kept[now.micro_step * uses + now.use][now.unit];
        if (now.op == Op::forward) {
          const Word in = input(flows[r].forward, r, x, now);
          act = saved(in, d);
          flows[r].forward = output(in, d);
          ref.outputs[r].push_back(flows[r].forward);
          continue;
        }
        std::size_t i = 0;
        for (const Index g : s.model.unit(now.unit)) {
          if (!s.model.group(g).frozen) {
            trained[g] = true;
            for (std::size_t e = 0; e < size; ++e) {
              grads[g][e] += gradient(flows[r].backward, act, ref.weights[g][e], i, e);
            }
          }
          ++i;
        }
        backward_flow(flows[r], act, d);
      }
    }
    Word norm = 0;
    for (std::size_t g = 0; g < groups; ++g) {
      for (const Word w : grads[g]) norm += w * w;
    }
    for (std::size_t g = 0; g < groups; ++g) {
      for (std::size_t e = 0; e < size && trained[g]; ++e) {
        apply_update(ref.weights[g][e], ref.states[g][e], grads[g][e], norm);
      }
    }
  }
  return ref;
}

enum class Outcome { correct, wrong, blocked };
/// How collectives share a rank: freely; in issue order for each communicator, as NCCL does; only
/// one at a time on a device, as when they need all its room, with one communicator for shards and
/// one for replicas, or with one for each stream.
enum class Sharing { free, in_order, crowded, crowded_streams };

class Simulation {
 public:
  Simulation(const Schedule& s, World world, const Reference& ref, std::uint64_t seed,
             Sharing sharing)
      : s_(s),
        world_(world),
        ref_(ref),
        random_(seed),
        sharing_(sharing),
        size_(world.ranks * world.replicas),
        n_(s.steps.size()) {
    for (std::size_t r = 0; r < size_; ++r) {
      ranks_.push_back(make_rank(r % world.ranks, r / world.ranks));
    }
    for (std::size_t x = 0; x < world.executions; ++x) {
      for (std::size_t i = 0; i < n_; ++i) {
        const Step& step = s.steps[i];
        program_[static_cast<std::size_t>(step.stream)].push_back(x * n_ + i);
        if (communicates(step.op)) issued_[communicator(step.op)].push_back(x * n_ + i);
      }
    }
  }

  Outcome run() {
    const std::size_t lanes = size_ * stream_count;
    std::vector<std::uint64_t> priority(lanes);
    const auto change = 1 + static_cast<unsigned>(random_() % 64);  // how often it changes its mind
    std::size_t left = size_ * n_ * world_.executions;
    while (left > 0) {
      if (random_() % change == 0) {
        for (std::uint64_t& p : priority) p = random_();
      }
      std::size_t best = lanes;
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        if (best != lanes && priority[lane] <= priority[best]) continue;
        if (can_run(lane / stream_count, lane % stream_count)) best = lane;
      }
      if (best == lanes) return Outcome::blocked;
      left -= execute(best / stream_count, best % stream_count);
    }
    return check() ? Outcome::correct : Outcome::wrong;
  }

 private:
  static constexpr std::size_t no_instance = ~std::size_t{0};
  struct Rank {
    std::size_t part = 0;     // which part of a group it holds
    std::size_t replica = 0;  // which part of that it updates, where replicas share
    std::vector<Words> memory[space_count];
    std::size_t done[stream_count] = {};  // steps completed per stream
    std::size_t collectives[3] = {};      // collectives completed per communicator
    std::size_t running = no_instance;    // the collective that has the device
    std::vector<char> complete;           // [instance]
    Words outputs;
  };

  /// Elements of a shard that one replica updates.
  std::size_t share() const {
    return s_.traits.shards_replicas ? world_.part / world_.replicas : world_.part;
  }
  /// Where what a rank updates begins in its shard.
  std::size_t share_begin(const Rank& rank) const {
    return s_.traits.shards_replicas ? rank.replica * share() : 0;
  }
  Rank make_rank(std::size_t part, std::size_t replica) {
    Rank rank;
    rank.part = part;
    rank.replica = replica;
    const std::size_t whole = world_.part * world_.ranks;
    const std::size_t state = s_.traits.shards_optimizer ? share() : whole;
    const std::size_t sizes[space_count] = {world_.part, whole, whole, world_.part, state,
                                            1,           2,     1,     1,           state};
    for (std::size_t space = 0; space < space_count; ++space) {
      const bool zero = static_cast<Space>(space) == Space::optimizer;
      for (std::size_t i = 0; i < s_.extent[space]; ++i) {
        rank.memory[space].emplace_back(sizes[space], zero ? 0 : scramble(i + 31 * space + 99));
      }
    }
    at(rank, {Space::flow, Mode::write, 0}) = {Flow{}.forward, Flow{}.backward};
    for (std::size_t g = 0; g < s_.model.groups(); ++g) {
      const auto group = static_cast<Index>(g);
      for (std::size_t e = 0; e < world_.part; ++e) {
        at(rank, {Space::params_shard, Mode::write, group})[e] =
            initial_weight(g, part * world_.part + e);
      }
      for (std::size_t e = 0; e < whole && s_.home[g] != nowhere; ++e) {
        at(rank, {Space::params_whole, Mode::write, s_.home[g]})[e] = initial_weight(g, e);
      }
    }
    rank.complete.assign(n_ * world_.executions, 0);
    return rank;
  }
  /// Of the shards, of the replicas, of the world.
  std::size_t communicator(Op op) const {
    if (across_replicas(op)) return 1;
    return op == Op::combine && s_.traits.replicates ? 2 : 0;
  }
  std::size_t next(std::size_t r, std::size_t stream) const {
    const std::size_t at = ranks_[r].done[stream];
    return at < program_[stream].size() ? program_[stream][at] : n_ * world_.executions;
  }
  bool ready(std::size_t r, std::size_t instance) const {
    const std::size_t i = instance % n_, base = instance - i;
    for (const std::uint32_t wait : s_.steps[i].waits) {
      if (wait == no_wait) continue;
      if (wait >= i && base == 0) continue;  // never recorded
      const std::size_t target = wait < i ? base + wait : base - n_ + wait;
      if (ranks_[r].complete[target] == 0) return false;
    }
    const Op op = s_.steps[i].op;
    if (!communicates(op) || sharing_ == Sharing::free || sharing_ == Sharing::crowded_streams) {
      return true;
    }
    const std::size_t c = communicator(op);
    return issued_[c][ranks_[r].collectives[c]] == instance;
  }
  /// Calls f for the ranks that take part in a step of rank r.
  template <class F>
  void for_team(std::size_t r, Op op, F f) const {
    const std::size_t first = r - r % world_.ranks;
    if (!communicates(op)) {
      f(r);
    } else if (op == Op::combine) {
      for (std::size_t k = 0; k < size_; ++k) f(k);
    } else if (across_replicas(op)) {
      for (std::size_t k = r % world_.ranks; k < size_; k += world_.ranks) f(k);
    } else {
      for (std::size_t k = 0; k < world_.ranks; ++k) f(first + k);
    }
  }
  bool crowded() const { return sharing_ >= Sharing::crowded; }
  bool can_run(std::size_t r, std::size_t stream) const {
    const std::size_t instance = next(r, stream);
    if (instance == n_ * world_.executions || !ready(r, instance)) return false;
    const Op op = s_.steps[instance % n_].op;
    if (!communicates(op)) return true;
    if (crowded() && ranks_[r].running == no_instance) return true;  // may take the device
    bool all = true;
    for_team(r, op, [&](std::size_t member) {
      all = all && (crowded() ? ranks_[member].running == instance
                              : next(member, stream) == instance && ready(member, instance));
    });
    return all;
  }
  std::size_t execute(std::size_t r, std::size_t stream) {
    const std::size_t instance = next(r, stream);
    const Step& step = s_.steps[instance % n_];
    if (crowded() && communicates(step.op) && ranks_[r].running == no_instance) {
      ranks_[r].running = instance;
      return 0;
    }
    std::vector<std::size_t> team;
    for_team(r, step.op, [&](std::size_t member) { team.push_back(member); });
    if (communicates(step.op)) {
      collective(step, team);
    } else {
      local(ranks_[r], r, step, instance / n_);
    }
    for (const std::size_t member : team) {
      Rank& rank = ranks_[member];
      ++rank.done[stream];
      rank.complete[instance] = 1;
      if (!communicates(step.op)) continue;
      rank.running = no_instance;
      ++rank.collectives[communicator(step.op)];
    }
    return team.size();
  }

  static Words& at(Rank& rank, const Access& a) {
    return rank.memory[static_cast<std::size_t>(a.space)][a.index];
  }
  static Words* find(Rank& rank, const Step& step, Space space) {
    for (const Access& a : step) {
      if (a.space == space) return &at(rank, a);
    }
    return nullptr;
  }
  static Mode mode_of(const Step& step, Space space) {
    for (const Access& a : step) {
      if (a.space == space) return a.mode;
    }
    return Mode::none;
  }

  void collective(const Step& step, const std::vector<std::size_t>& team) {
    const std::size_t part = world_.part;
    if (step.op == Op::gather) {
      Words whole;
      for (const std::size_t m : team) {
        const Words* shard = find(ranks_[m], step, Space::params_shard);
        const Words& from = shard != nullptr ? *shard : *find(ranks_[m], step, Space::params_whole);
        const std::size_t begin = shard != nullptr ? 0 : ranks_[m].part * part;
        for (std::size_t e = 0; e < part; ++e) whole.push_back(from[begin + e]);
      }
      for (const std::size_t m : team) *find(ranks_[m], step, Space::params_whole) = whole;
    } else if (step.op == Op::combine) {
      if (!s_.traits.shards_optimizer) return;  // each rank has the norm of everything
      Words sums(size_ / world_.ranks, 0);      // of each replica, or of all
      const auto sum_of = [&](std::size_t m) -> Word& {
        return sums[s_.traits.shards_replicas ? 0 : m / world_.ranks];
      };
      for (const std::size_t m : team) sum_of(m) += (*find(ranks_[m], step, Space::control))[0];
      for (const std::size_t m : team) (*find(ranks_[m], step, Space::control))[0] = sum_of(m);
    } else if (step.op == Op::all_reduce_replicas) {
      Words sum(at(ranks_[team[0]], step.accesses[0]).size(), 0);
      for (const std::size_t m : team) {
        for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += at(ranks_[m], step.accesses[0])[e];
      }
      for (const std::size_t m : team) at(ranks_[m], step.accesses[0]) = sum;
    } else if (across_replicas(step.op)) {
      replicas(step, team);
    } else {
      reduce(step, team);
    }
  }
  /// Of the shard that the team holds, each replica receives the sum of its share, or all shares.
  void replicas(const Step& step, const std::vector<std::size_t>& team) {
    std::vector<Words> before;
    for (const std::size_t m : team) before.push_back(at(ranks_[m], step.accesses[0]));
    const Space space = step.accesses[0].space;
    const bool whole = space == Space::params_whole || space == Space::grads_whole;
    for (const std::size_t m : team) {
      Words& to = at(ranks_[m], step.accesses[0]);
      for (std::size_t owner = 0; owner < team.size(); ++owner) {
        const Rank& rank = ranks_[team[owner]];
        const std::size_t begin = (whole ? rank.part * world_.part : 0) + share_begin(rank);
        for (std::size_t e = begin; e < begin + share(); ++e) {
          if (step.op == Op::gather_replicas) to[e] = before[owner][e];
          if (step.op != Op::reduce_scatter_replicas) continue;
          if (team[owner] != m) {
            to[e] = scramble(to[e]);  // no replica may use what is not its own
          } else {
            to[e] = 0;
            for (const Words& part : before) to[e] += part[e];
          }
        }
      }
    }
  }
  void reduce(const Step& step, const std::vector<std::size_t>& team) {
    Words sum(world_.part * world_.ranks, 0);
    for (const std::size_t m : team) {
      const Words& from = *find(ranks_[m], step, Space::grads_whole);
      for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += from[e];
    }
    for (const std::size_t m : team) {
      const std::size_t begin = ranks_[m].part * world_.part;
      Words* const shard = find(ranks_[m], step, Space::grads_shard);
      Words& whole = *find(ranks_[m], step, Space::grads_whole);
      if (step.op == Op::all_reduce) whole = sum;
      for (std::size_t e = 0; e < world_.part && step.op == Op::reduce_scatter; ++e) {
        if (shard == nullptr) {
          whole[begin + e] = sum[begin + e];
        } else {
          const bool adds = mode_of(step, Space::grads_shard) == Mode::update;
          (*shard)[e] = sum[begin + e] + (adds ? (*shard)[e] : 0);
        }
      }
    }
  }
  void local(Rank& rank, std::size_t r, const Step& step, std::size_t execution) {
    switch (step.op) {
      case Op::release:  // poison
        for (Word& w : *find(rank, step, Space::params_whole)) w = scramble(w + 12345);
        break;
      case Op::forward:
      case Op::backward: compute(rank, r, step, execution); break;
      case Op::square_norm: {
        const Words* shard = find(rank, step, Space::grads_shard);
        const Words& g = shard != nullptr ? *shard : *find(rank, step, Space::grads_whole);
        const bool own = s_.traits.shards_optimizer;
        const std::size_t first = own && shard == nullptr ? rank.part * world_.part : 0;
        const std::size_t begin = first + share_begin(rank);
        const std::size_t end = own ? begin + share() : g.size();
        Word& norm = (*find(rank, step, Space::control))[0];
        if (mode_of(step, Space::control) == Mode::write) norm = 0;
        for (std::size_t e = begin; e < end; ++e) norm += g[e] * g[e];
        break;
      }
      case Op::update: {
        const Words* shard = find(rank, step, Space::grads_shard);
        const Words& g = shard != nullptr ? *shard : *find(rank, step, Space::grads_whole);
        Words* to_shard = find(rank, step, Space::params_shard);
        Words& weights = to_shard != nullptr ? *to_shard : *find(rank, step, Space::params_whole);
        Words* const slot = find(rank, step, Space::state_slot);
        Words& state = slot != nullptr ? *slot : *find(rank, step, Space::optimizer);
        const Word norm = (*find(rank, step, Space::control))[0];
        const std::size_t own = s_.traits.shards_optimizer ? rank.part * world_.part : 0;
        const std::size_t part = share_begin(rank);
        for (std::size_t e = 0; e < state.size(); ++e) {
          apply_update(weights[e + part + (to_shard != nullptr ? 0 : own)], state[e],
                       g[e + part + (shard != nullptr ? 0 : own)], norm);
        }
        break;
      }
      case Op::fetch_state:
        *find(rank, step, Space::state_slot) = *find(rank, step, Space::optimizer);
        break;
      case Op::store_state:
        *find(rank, step, Space::optimizer) = *find(rank, step, Space::state_slot);
        break;
      default: break;
    }
  }
  void compute(Rank& rank, std::size_t r, const Step& step, std::size_t execution) {
    std::vector<const Words*> weights;
    std::vector<Access> grads;
    for (const Access& a : step) {
      if (a.space == Space::params_whole) weights.push_back(&at(rank, a));
      if (a.space == Space::grads_whole) grads.push_back(a);
    }
    const Word d = digest(weights);
    Word& act = (*find(rank, step, Space::activations))[0];
    Words& words = *find(rank, step, Space::flow);
    Flow flow{words[0], words[1]};
    if (step.op == Op::forward) {
      const Word in = input(flow.forward, r, execution, {step.op, step.subject, step.micro_step});
      act = saved(in, d);
      flow.forward = output(in, d);
      rank.outputs.push_back(flow.forward);
    } else {
      std::size_t i = 0, nth = 0;
      for (const Index g : s_.model.unit(step.subject)) {
        if (!s_.model.group(g).frozen) {
          Words& grad = at(rank, grads[nth]);
          const bool adds = grads[nth++].mode == Mode::update;
          for (std::size_t e = 0; e < grad.size(); ++e) {
            grad[e] = gradient(flow.backward, act, (*weights[i])[e], i, e) + (adds ? grad[e] : 0);
          }
        }
        ++i;
      }
      backward_flow(flow, act, d);
    }
    words = {flow.forward, flow.backward};
  }
  bool check() {
    const std::size_t whole = world_.part * world_.ranks;
    for (std::size_t r = 0; r < size_; ++r) {
      Rank& rank = ranks_[r];
      for (std::size_t g = 0; g < s_.model.groups(); ++g) {
        const bool always = s_.home[g] != nowhere;
        const Words& w = always
                             ? at(rank, {Space::params_whole, Mode::read, s_.home[g]})
                             : at(rank, {Space::params_shard, Mode::read, static_cast<Index>(g)});
        const std::size_t begin = always ? 0 : rank.part * world_.part;
        for (std::size_t e = 0; e < (always ? whole : world_.part); ++e) {
          if (w[e] != ref_.weights[g][begin + e]) return false;
        }
      }
      if (rank.outputs != ref_.outputs[r]) return false;
    }
    return true;
  }

  const Schedule& s_;
  World world_;
  const Reference& ref_;
  std::minstd_rand random_;
  Sharing sharing_;
  std::size_t size_, n_;
  std::vector<Rank> ranks_;
  std::vector<std::size_t> program_[stream_count], issued_[3];
};

inline Outcome simulate(const Schedule& s, const Reference& ref, std::uint64_t seed,
                        Sharing sharing) {
  return Simulation(s, world_of(s), ref, seed, sharing).run();
}

}  // namespace simulated
