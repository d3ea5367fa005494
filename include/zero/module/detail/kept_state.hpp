// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Access by name and element to what a module keeps: weights and optimizer state. May include
// anything below module/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <zero/comm/mesh.hpp>
#include <zero/module/buffers.hpp>
#include <zero/module/parameter_table.hpp>

namespace zero::detail {

/// Reads and writes whole tensors whose elements lie on many ranks.
template <class Comm, class Buffers, class T>
class KeptState {
 public:
  KeptState(const ParameterTable& parameters, const Mesh<Comm>& mesh, Buffers& buffers,
            const Schedule& schedule)
      : parameters_(parameters), mesh_(mesh), buffers_(buffers), schedule_(schedule) {}

  /// Sets each weight to value(element), and the masters with them.
  template <class F>
  void set_weights(const TensorInfo& tensor, F value) {
    const auto& group = buffers_.group(tensor.group);
    for_each_piece(tensor, params_held(tensor), [&](const Piece& piece, std::size_t at) {
      for (std::size_t i = 0; i < piece.count; ++i) {
        group.params[at + i] = from_float<T>(value(piece.tensor_begin + i));
      }
    });
    if (!Buffers::has_master || tensor.frozen) return;
    set(tensor, group.master, value);
  }
  /// Sets each number of optimizer state k to value(element).
  template <class F>
  void set_state(const TensorInfo& tensor, std::size_t k, F value) {
    set(tensor, state(tensor, k), value);
  }

  /// Collects the weights of a tensor on every rank of the shard axis: the masters where there are
  /// any.
  void read_weights(const TensorInfo& tensor, std::span<float> out) {
    const auto& group = buffers_.group(tensor.group);
    if (Buffers::has_master && !tensor.frozen) {
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
  std::span<float> state(const TensorInfo& tensor, std::size_t k) const {
    const auto& states = buffers_.group(tensor.group).states;
    if (tensor.frozen || k >= states.size()) {
      throw ContractError("zero: tensor '" + tensor.name + "' has no optimizer state " +
                          std::to_string(k) + (tensor.frozen ? "; it is frozen" : ""));
    }
    return states[k];
  }
  template <class F>
  void set(const TensorInfo& tensor, std::span<float> held, F value) {
    for_each_piece(tensor, state_held(), [&](const Piece& piece, std::size_t at) {
      for (std::size_t i = 0; i < piece.count; ++i) {
        held[at + i] = value(piece.tensor_begin + i);
      }
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
  template <class Number>
  void read(const TensorInfo& tensor, std::span<Number> values, Held held, std::span<float> out) {
    for_each_piece(tensor, held, [&](const Piece& piece, std::size_t at) {
      for (std::size_t i = 0; i < piece.count; ++i) {
        out[piece.tensor_begin + i] = to_float(values[at + i]);
      }
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
