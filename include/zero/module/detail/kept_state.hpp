// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Access by name and element to what a module keeps: weights and optimizer state. May include
// anything below module/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
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
    const bool whole = schedule_.home[tensor.group] != nowhere;
    for_each_piece(tensor, !whole, [&](const Piece& piece, std::size_t at) {
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

  /// Swaps the weights of a tensor with number k of its state, on the ranks that update them; see
  /// publish.
  void exchange(const TensorInfo& tensor, std::size_t k) {
    const auto& group = buffers_.group(tensor.group);
    const std::span<float> other = state(tensor, k);
    for_each_piece(tensor, schedule_.traits.shards_optimizer,
                   [&](const Piece& piece, std::size_t begin) {
                     for (std::size_t i = begin; i < begin + piece.count; ++i) {
                       std::swap(group.master[i], other[i]);
                       if (Buffers::has_master) group.own[i] = from_float<T>(group.master[i]);
                     }
                   });
  }
  /// Refreshes what each rank holds whole of a group from the shards. A collective.
  void publish(std::size_t g) {
    if (schedule_.home[g] == nowhere || !schedule_.traits.shards_optimizer) return;
    const GroupInfo& info = parameters_.groups()[g];
    T* const whole = buffers_.group(g).params.data();
    const std::size_t count = info.layout.shard();
    mesh_.shard.all_gather(whole + mesh_.shard.rank() * count, whole, count,
                           Label{"publish", parameters_.units()[info.unit].name, 0});
  }

  /// Collects the weights of a tensor on every rank of the shard axis: the masters where there are
  /// any.
  void read_weights(const TensorInfo& tensor, std::span<float> out) {
    const auto& group = buffers_.group(tensor.group);
    if (Buffers::has_master && !tensor.frozen) {
      read(tensor, group.master, schedule_.traits.shards_optimizer, out);
    } else {
      read(tensor, group.params, schedule_.home[tensor.group] == nowhere, out);
    }
  }
  void read_state(const TensorInfo& tensor, std::size_t k, std::span<float> out) {
    read(tensor, state(tensor, k), schedule_.traits.shards_optimizer, out);
  }

 private:
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
    for_each_piece(tensor, schedule_.traits.shards_optimizer,
                   [&](const Piece& piece, std::size_t at) {
                     for (std::size_t i = 0; i < piece.count; ++i) {
                       held[at + i] = value(piece.tensor_begin + i);
                     }
                   });
  }
  /// Calls f(piece, where it begins in the buffer) for each piece of a tensor that this rank holds:
  /// those of its own shard, or, where the buffer is whole, of all.
  template <class F>
  void for_each_piece(const TensorInfo& tensor, bool sharded, F f) const {
    const FlatLayout& layout = parameters_.groups()[tensor.group].layout;
    const std::size_t first = sharded ? mesh_.shard.rank() : 0;
    const std::size_t last = sharded ? first + 1 : layout.ranks();
    for (std::size_t r = first; r < last; ++r) {
      layout.for_each_piece(r, [&](const Piece& piece) {
        if (piece.tensor == tensor.place) {
          f(piece, piece.shard_begin + (sharded ? 0 : r * layout.shard()));
        }
      });
    }
  }
  template <class Number>
  void read(const TensorInfo& tensor, std::span<Number> held, bool sharded, std::span<float> out) {
    for_each_piece(tensor, sharded, [&](const Piece& piece, std::size_t at) {
      for (std::size_t i = 0; i < piece.count; ++i) {
        out[piece.tensor_begin + i] = to_float(held[at + i]);
      }
    });
    if (!sharded) return;
    const FlatLayout& layout = parameters_.groups()[tensor.group].layout;
    for (std::size_t r = 0; r < layout.ranks(); ++r) {
      layout.for_each_piece(r, [&](const Piece& piece) {
        if (piece.tensor != tensor.place) return;
        mesh_.shard.broadcast(out.data() + piece.tensor_begin, piece.count, r,
                              Label{"read", tensor.name, 0});
      });
    }
  }

  const ParameterTable& parameters_;
  const Mesh<Comm>& mesh_;
  Buffers& buffers_;
  const Schedule& schedule_;
};

}  // namespace zero::detail
