// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Access by name and element to what a module keeps: weights and optimizer state. May include
// anything below module/.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <zero/base/array.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/buffers.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/optim/cast.hpp>

namespace zero::detail {

/// Reads and writes whole tensors whose elements lie on many ranks.
template <class Comm, class Buffers>
class KeptState {
 public:
  KeptState(const ParameterTable& parameters, const Mesh<Comm>& mesh, Buffers& buffers,
            const Schedule& schedule)
      : parameters_(parameters), mesh_(mesh), buffers_(buffers), schedule_(schedule) {}

  /// Sets each weight to value(element), and the masters with them. What is narrower is rounded to
  /// nearest.
  template <class F>
  void set_weights(const TensorInfo& tensor, F value) {
    const auto& group = buffers_.group(tensor.group);
    const Precision& types = parameters_.groups()[tensor.group].types;
    with_type(types.gather, [&]<class Wire>() {
      set(tensor, group.params, params_held(tensor),
          [&](std::size_t i) { return to_float(from_float<Wire>(value(i))); });
    });
    if (tensor.frozen || !types.has_master()) return;
    set(tensor, group.master, state_held(), value);
  }
  /// Rounds weights that compute to the type in which they are gathered, after somebody else wrote
  /// them.
  void round_weights() {
    for (std::size_t g = 0; g < parameters_.groups().size(); ++g) {
      const Array& params = buffers_.group(g).params;
      with_type(parameters_.groups()[g].types.gather, [&]<class Wire>() {
        if (params.type == data_type<Wire>) return;
        for (std::size_t i = 0; i < params.count; ++i) {
          float& x = params.as<float>()[i];  // all that is gathered narrower computes in fp32
          x = to_float(from_float<Wire>(x));
        }
      });
    }
  }
  /// Sets each number of optimizer state k to value(element).
  template <class F>
  void set_state(const TensorInfo& tensor, std::size_t k, F value) {
    set(tensor, state(tensor, k), state_held(), value);
  }

  /// Collects the weights of a tensor on every rank of the shard axis: the masters where there are
  /// any.
  void read_weights(const TensorInfo& tensor, std::span<float> out) {
    const auto& group = buffers_.group(tensor.group);
    if (!tensor.frozen && parameters_.groups()[tensor.group].types.has_master()) {
      read(tensor, group.master, state_held(), out);
    } else {
      read(tensor, group.params, params_held(tensor), out);
    }
  }
  void read_state(const TensorInfo& tensor, std::size_t k, std::span<float> out) {
    read(tensor, state(tensor, k), state_held(), out);
  }

 private:
  /// How much of a group a buffer holds: all, the shard, or the part that this rank updates.
  enum class Held { whole, shard, part };
  Held params_held(const TensorInfo& tensor) const {
    return schedule_.home[tensor.group] != nowhere ? Held::whole : Held::shard;
  }
  Held state_held() const {
    return schedule_.traits.shards_replicas    ? Held::part
           : schedule_.traits.shards_optimizer ? Held::shard
                                               : Held::whole;
  }
  const Array& state(const TensorInfo& tensor, std::size_t k) const {
    const auto& states = buffers_.group(tensor.group).states;
    if (tensor.frozen || k >= states.size()) {
      throw ContractError("zero: tensor '" + tensor.name + "' has no optimizer state " +
                          std::to_string(k) + (tensor.frozen ? "; it is frozen" : ""));
    }
    return states[k];
  }
  template <class F>
  void set(const TensorInfo& tensor, const Array& array, Held held, F value) {
    with_type(array.type, [&]<class T>() {
      for_each_piece(tensor, held, [&](const Piece& piece, std::size_t at) {
        for (std::size_t i = 0; i < piece.count; ++i) {
          array.as<T>()[at + i] = from_float<T>(value(piece.tensor_begin + i));
        }
      });
    });
  }
  /// Calls f(piece, where it begins in the buffer) for each piece of a tensor that this rank holds.
  template <class F>
  void for_each_piece(const TensorInfo& tensor, Held held, F f) const {
    const GroupInfo& group = parameters_.groups()[tensor.group];
    const FlatLayout& layout = group.layout;
    std::size_t first = 0, last = layout.ranks();
    if (held != Held::whole) {
      first = mesh_.shard.rank() * group.parts;
      last = first + group.parts;
    }
    if (held == Held::part) {
      first += mesh_.replicate.rank();
      last = first + 1;
    }
    for (std::size_t r = first; r < last; ++r) {
      layout.for_each_piece(r, [&](const Piece& piece) {
        if (piece.tensor == tensor.place) {
          f(piece, piece.shard_begin + (r - first) * layout.shard());
        }
      });
    }
  }
  void read(const TensorInfo& tensor, const Array& array, Held held, std::span<float> out) {
    for_each_piece(tensor, held, [&](const Piece& piece, std::size_t at) {
      cast(array.part(at, piece.count), Array(out.data() + piece.tensor_begin, piece.count));
    });
    if (held == Held::whole) return;
    const GroupInfo& group = parameters_.groups()[tensor.group];
    for (std::size_t r = 0; r < group.layout.ranks(); ++r) {
      const std::size_t shard = r / group.parts, replica = r % group.parts;
      group.layout.for_each_piece(r, [&](const Piece& piece) {
        if (piece.tensor != tensor.place) return;
        float* const to = out.data() + piece.tensor_begin;
        const Label label{"read", tensor.name, 0};
        if (held == Held::shard) {
          mesh_.shard.broadcast(to, piece.count, shard, label);
        } else {
          mesh_.world.broadcast(to, piece.count, replica * mesh_.shard.size() + shard, label);
        }
      });
    }
  }

  const ParameterTable& parameters_;
  const Mesh<Comm>& mesh_;
  Buffers& buffers_;
  const Schedule& schedule_;
};

}  // namespace zero::detail
