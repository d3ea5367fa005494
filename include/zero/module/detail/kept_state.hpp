// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Access by name and element to what a module keeps: weights and optimizer state. May include
// anything below module/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <zero/base/array.hpp>
#include <zero/base/list.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/detail/checks.hpp>
#include <zero/module/detail/kept_places.hpp>
#include <zero/module/detail/numbers.hpp>
#include <zero/module/detail/on_device.hpp>
#include <zero/module/detail/range_states.hpp>
#include <zero/module/detail/state_at_rest.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/optim/cast.hpp>
#include <zero/optim/optimizer.hpp>

namespace zero::detail {

/// Reads and writes whole tensors whose elements lie on many ranks.
template <class Optimizer, class Comm, class Buffers, class Streams>
class KeptState : private KeptPlaces<Comm, Streams> {
  using Base = KeptPlaces<Comm, Streams>;
  using Held = typename Base::Held;
  using Base::for_each_piece, Base::params_held, Base::read, Base::read_pieces, Base::set,
      Base::state_held;
  using Base::mesh_, Base::parameters_, Base::schedule_, Base::streams_;

  using AtRest = StateAtRest<Buffers, Streams, typename OnDevice<typename Comm::Stream>::Store>;

 public:
  KeptState(const ParameterTable& parameters, const Mesh<Comm>& mesh, AtRest& at_rest,
            const Schedule& schedule, Streams& streams)
      : Base(parameters, mesh, schedule, streams), at_rest_(at_rest) {}

  /// Sets each weight of [begin, end) to value(element), and the masters with them. What is
  /// narrower is rounded to nearest.
  void set_weights(const TensorInfo& tensor, const Numbers& value, std::size_t begin = 0,
                   std::size_t end = ~std::size_t{0}) {
    const auto& group = at_rest_.group(tensor.group);
    const Precision& types = parameters_.groups()[tensor.group].types;
    set(tensor, group.params, params_held(tensor), value, types.gather, begin, end);
    if (tensor.frozen || !types.has_master()) return;
    const Array& master = at_rest_.kept(tensor.group, true).master;
    set(tensor, master, state_held(), value, DataType::fp32, begin, end);
  }
  /// Rounds weights that compute to the type in which they are gathered, after somebody else wrote
  /// them.
  void round_weights() {
    for (std::size_t g = 0; g < parameters_.groups().size(); ++g) {
      const Array& params = at_rest_.group(g).params;
      const DataType type = parameters_.groups()[g].types.gather;
      if (params.type == type) continue;
      streams_.change(params, params, [&](const Array& part, const Array&) {
        round_to(type, {part.as<float>(), part.count});  // what is gathered narrower is fp32
      });
    }
  }
  /// Sets each number of optimizer state k to value(element).
  void set_state(const TensorInfo& tensor, std::size_t k, const Numbers& value) {
    const Array& held = state(tensor, k, true);
    if constexpr (RangeOptimizer<Optimizer>) {
      for_each_piece(tensor, state_held(), [&](const Piece& piece, std::size_t at) {
        RangeStates<Optimizer>::set(parameters_.groups()[tensor.group], piece, at, k, held, value);
      });
    } else {
      set(tensor, held, state_held(), value);
    }
  }

  /// Sets each weight to value(tensor, element) of one rank, which alone calls it. A collective.
  template <class F>
  void initialize(F value, std::size_t root) {
    float part[1024];
    for (const TensorInfo& tensor : parameters_.tensors()) {
      const std::size_t elements = tensor.shape.elements();
      for (std::size_t begin = 0; begin < elements; begin += std::size(part)) {
        const std::size_t end = std::min(elements, begin + std::size(part));
        for (std::size_t i = begin; i < end && mesh_.world.rank() == root; ++i) {
          part[i - begin] = value(tensor, i);
        }
        mesh_.world.broadcast(part, end - begin, root, Label{"initialize", tensor.name, 0});
        set_weights(
            tensor, [&](std::size_t i) { return part[i - begin]; }, begin, end);
      }
    }
  }
  /// Errors:  ContractError if somewhere the optimizer state has another type than the weights.
  void require_exchangeable() const {
    for (const TensorInfo& tensor : parameters_.tensors()) {
      const Precision& types = parameters_.groups()[tensor.group].types;
      const DataType weights =
          types.has_master() ? DataType::fp32 : at_rest_.group(tensor.group).params.type;
      if (tensor.frozen || weights == types.moments) continue;
      throw ContractError("zero: the average of '" + tensor.name +
                          "' is kept in another type than its weights, so that exchanging them "
                          "would round; keep moments, and weights or masters, in fp32");
    }
  }
  /// Swaps the weights, which are exchangeable, with number k of the state in all tensors that
  /// have(their index), and refreshes what ranks hold whole. A collective.
  template <class F>
  void exchange(std::size_t k, F have) {
    for (std::size_t t = 0; t < parameters_.tensors().size(); ++t) {
      const TensorInfo& tensor = parameters_.tensors()[t];
      if (!tensor.frozen && have(t)) exchange(tensor, k);
    }
    for (std::size_t g = 0; g < parameters_.groups().size(); ++g) {
      if (!parameters_.groups()[g].frozen) publish(g);
    }
  }
  /// Throws, on every rank, if ranks differ in weights that they must hold alike. `sums` [ranks of
  /// the world] is room for their checksums. A collective.
  void compare(List<Checksums>& sums, const char* call) const {
    if (!has_replicas()) return;
    const auto gather = [&](const Checksums& mine) {
      mesh_.world.all_gather(mine.data(), sums.data()->data(), mine.size(),
                             Label{"compare weights", "all units", 0});
    };
    Checksums all{};
    for (const TensorInfo& tensor : parameters_.tensors()) {
      const Checksums of_tensor = checksums(tensor);
      for (std::size_t k = 0; k < all.size(); ++k) all[k] = all[k] * 31 + of_tensor[k];
    }
    gather(all);
    if (!replicas_differ(mesh_, sums)) return;
    for (const TensorInfo& tensor : parameters_.tensors()) {
      gather(checksums(tensor));
      check_replicas(mesh_, sums, call, tensor.name);
    }
  }
  /// Makes what ranks hold alike that of one rank of the world, or of its replica. A collective.
  void broadcast(std::size_t root) {
    const std::size_t replica = root / mesh_.shard.size();
    const auto send = [&](const Array& values, Held held, const Label& label) {
      with_type(values.type, [&]<class Number>() {
        Number* const data = values.as<Number>();
        if (held == Held::whole) {
          mesh_.world.broadcast(this->stream(), data, values.count, root, label);
        } else if (held == Held::shard) {
          mesh_.replicate.broadcast(this->stream(), data, values.count, replica, label);
        }
      });
    };
    for (std::size_t g = 0; g < parameters_.groups().size(); ++g) {
      const GroupInfo& info = parameters_.groups()[g];
      const Label label{"broadcast_weights", parameters_.units()[info.unit].name, 0};
      const auto& group = at_rest_.group(g);
      send(group.params, params_held(g), label);
      if (!info.types.has_master() || info.frozen) continue;
      const auto& kept = at_rest_.kept(g, true);
      send(kept.master, state_held(), label);
      // The root may not have these masters: those that do not fit its weights follow them.
      stream().synchronize();
      streams_.change(kept.own, kept.master, [&](const Array& own, const Array& masters) {
        with_type(own.type, [&]<class Own>() {
          for (std::size_t i = 0; i < own.count; ++i) {
            const float weight = to_float(own.as<Own>()[i]);
            float& master = masters.as<float>()[i];
            if (rounded(g, master) != weight) master = weight;
          }
        });
      });
    }
    stream().synchronize();
  }

  /// Collects the weights of a tensor on every rank of the shard axis: the masters where there are
  /// any.
  void read_weights(const TensorInfo& tensor, std::span<float> out) {
    if (!tensor.frozen && parameters_.groups()[tensor.group].types.has_master()) {
      return read(tensor, at_rest_.kept(tensor.group, false).master, state_held(), out);
    }
    read(tensor, at_rest_.group(tensor.group).params, params_held(tensor), out);
  }
  void read_state(const TensorInfo& tensor, std::size_t k, std::span<float> out) {
    const Array& held = state(tensor, k, false);
    if constexpr (RangeOptimizer<Optimizer>) {
      using States = RangeStates<Optimizer>;
      const GroupInfo& group = parameters_.groups()[tensor.group];
      read_pieces(
          tensor, state_held(), [&](const Piece& piece) { return States::seen(piece, out); },
          [&](const Piece& piece, std::size_t at) {
            States::get(group, piece, at, k, held, States::seen(piece, out));
          });
    } else {
      read(tensor, held, state_held(), out);
    }
  }

 private:
  auto& stream() { return streams_[StreamId::gather]; }

  /// Swaps the weights of a tensor with number k of its state, on the ranks that update them; see
  /// publish.
  void exchange(const TensorInfo& tensor, std::size_t k) {
    const Array &weights = at_rest_.kept(tensor.group, true).master,
                &other = state(tensor, k, true);
    for_each_piece(tensor, state_held(), [&](const Piece& piece, std::size_t at) {
      const Array from = weights.part(at, piece.count), to = other.part(at, piece.count);
      streams_.change(from, to, [](const Array& a, const Array& b) {
        std::swap_ranges(a.data, a.data + a.bytes(), b.data);
      });
    });
    if (!parameters_.groups()[tensor.group].types.has_master()) return;
    for_each_piece(tensor, state_held(), [&](const Piece& piece, std::size_t at) {
      this->refresh(tensor.group, at, piece.count);
    });
  }
  /// What weights that compute are made of a master weight.
  float rounded(std::size_t g, float master) const {
    return with_type(parameters_.groups()[g].types.gather,
                     [&]<class Wire>() { return to_float(from_float<Wire>(master)); });
  }
  /// Makes weights that compute of the masters.
  void refresh(std::size_t g, std::size_t begin, std::size_t count) {
    const auto& group = at_rest_.kept(g, false);
    const auto refresh_part = [&](const Array& own, const Array& masters) {
      with_type(own.type, [&]<class Own>() {
        for (std::size_t i = 0; i < own.count; ++i) {
          own.as<Own>()[i] = from_float<Own>(rounded(g, masters.as<float>()[i]));
        }
      });
    };
    streams_.change(group.own.part(begin, count), group.master.part(begin, count), refresh_part);
  }
  /// Refreshes what ranks hold of a group beyond what they update. A collective.
  void publish(std::size_t g) {
    const GroupInfo& info = parameters_.groups()[g];
    const Label label{"publish", parameters_.units()[info.unit].name, 0};
    const bool whole = params_held(g) == Held::whole;
    const Array& params = at_rest_.group(g).params;
    with_type(params.type, [&]<class Number>() {
      Number* const all = params.as<Number>();
      Number* const shard = all + (whole ? mesh_.shard.rank() * info.shard() : 0);
      if (this->state_held() == Held::part) {
        const std::size_t count = info.layout.shard();
        mesh_.replicate.all_gather(this->stream(), shard + mesh_.replicate.rank() * count, shard,
                                   count, label);
      }
      if (whole && this->state_held() != Held::whole) {
        mesh_.shard.all_gather(this->stream(), shard, all, info.shard(), label);
      }
    });
    stream().synchronize();
  }

  /// Whether ranks hold anything alike: whole weights, or the shards of replicas.
  bool has_replicas() const {
    const auto whole = [](Index home) { return home != nowhere; };
    return mesh_.replicate.size() > 1 ||
           (mesh_.shard.size() > 1 &&
            (state_held() == Held::whole ||
             std::any_of(schedule_.home.begin(), schedule_.home.end(), whole)));
  }
  /// Of one tensor on this rank.
  Checksums checksums(const TensorInfo& tensor) const {
    const auto& group = at_rest_.group(tensor.group);
    Checksums sums{};
    const auto mix = [&](const Array& values, Held held) {
      if (held == Held::part) return;  // nobody else has it
      std::uint64_t& sum = sums[held == Held::shard ? 1 : 0];
      this->for_each_piece(tensor, held, [&](const Piece& piece, std::size_t at) {
        streams_.read(values.part(at, piece.count), [&](const Array& part, std::size_t) {
          with_type(part.type, [&]<class Number>() {
            for (std::size_t i = 0; i < part.count; ++i) {
              const auto bits = std::bit_cast<std::uint32_t>(to_float(part.as<Number>()[i]));
              sum = (sum ^ bits) * 0x100000001b3U + 1;
            }
          });
        });
      });
    };
    mix(group.params, params_held(tensor.group));
    const bool has_master = parameters_.groups()[tensor.group].types.has_master();
    if (has_master && !tensor.frozen) mix(at_rest_.kept(tensor.group, false).master, state_held());
    return sums;
  }
  const Array& state(const TensorInfo& tensor, std::size_t k, bool changes) const {
    const auto& states = at_rest_.kept(tensor.group, changes).states;
    if (tensor.frozen || k >= states.size()) {
      throw ContractError("zero: tensor '" + tensor.name + "' has no optimizer state " +
                          std::to_string(k) + (tensor.frozen ? "; it is frozen" : ""));
    }
    return states[k];
  }

  AtRest& at_rest_;
};

}  // namespace zero::detail
