// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Access by name and element to what a module keeps: weights and optimizer state. May include
// anything below module/.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>
#include <zero/comm/mesh.hpp>
#include <zero/module/buffers.hpp>
#include <zero/module/detail/checks.hpp>
#include <zero/module/parameter_table.hpp>

namespace zero::detail {

/// Reads and writes whole tensors whose elements lie on many ranks.
template <class Comm, class Buffers, class T>
class KeptState {
 public:
  KeptState(const ParameterTable& parameters, const Mesh<Comm>& mesh, Buffers& buffers,
            const Schedule& schedule)
      : parameters_(parameters), mesh_(mesh), buffers_(buffers), schedule_(schedule) {}

  /// Sets each weight of [begin, end) to value(element), and the masters with them.
  template <class F>
  void set_weights(const TensorInfo& tensor, F value, std::size_t begin = 0,
                   std::size_t end = ~std::size_t{0}) {
    const auto& group = buffers_.group(tensor.group);
    const auto set_part = [&](auto held, bool sharded, auto convert) {
      for_each_piece(tensor, sharded, [&](const Piece& piece, std::size_t at) {
        const std::size_t first = std::max(begin, piece.tensor_begin);
        const std::size_t last = std::min(end, piece.tensor_begin + piece.count);
        for (std::size_t i = first; i < last; ++i) {
          held[at + (i - piece.tensor_begin)] = convert(value(i));
        }
      });
    };
    set_part(group.params, schedule_.home[tensor.group] == nowhere,
             [](float x) { return from_float<T>(x); });
    if (!Buffers::has_master || tensor.frozen) return;
    set_part(group.master, schedule_.traits.shards_optimizer, [](float x) { return x; });
  }
  /// Sets each number of optimizer state k to value(element).
  template <class F>
  void set_state(const TensorInfo& tensor, std::size_t k, F value) {
    set(tensor, state(tensor, k), value);
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
  /// Swaps the weights with number k of the state, in all tensors that have(their index), and
  /// refreshes what ranks hold whole. A collective.
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
  void compare(std::vector<Checksums>& sums, const char* call) const {
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
    const auto send = [&](auto held, bool sharded, const Label& label) {
      const auto& comm = sharded ? mesh_.replicate : mesh_.world;
      comm.broadcast(held.data(), held.size(), sharded ? replica : root, label);
    };
    for (std::size_t g = 0; g < parameters_.groups().size(); ++g) {
      const GroupInfo& info = parameters_.groups()[g];
      const Label label{"broadcast_weights", parameters_.units()[info.unit].name, 0};
      const auto& group = buffers_.group(g);
      const bool whole = schedule_.home[g] != nowhere;
      send(group.params, !whole, label);
      if (!Buffers::has_master || info.frozen) continue;
      send(group.master, schedule_.traits.shards_optimizer, label);
      if (!whole) continue;
      // The root does not have these masters: those that do not fit its weights follow them.
      for (std::size_t i = 0; i < group.master.size(); ++i) {
        const float weight = to_float(group.own[i]);
        if (to_float(from_float<T>(group.master[i])) != weight) group.master[i] = weight;
      }
    }
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

  /// Whether ranks hold anything alike: whole weights, or the shards of replicas.
  bool has_replicas() const {
    const auto whole = [](Index home) { return home != nowhere; };
    return mesh_.replicate.size() > 1 ||
           (mesh_.shard.size() > 1 &&
            (!schedule_.traits.shards_optimizer ||
             std::any_of(schedule_.home.begin(), schedule_.home.end(), whole)));
  }
  /// Checksums of the weights that all ranks hold alike, and of those that the same rank of each
  /// replica holds.
  Checksums checksums(const TensorInfo& tensor) const {
    const auto& group = buffers_.group(tensor.group);
    Checksums sums{};
    const auto mix = [&](auto held, bool sharded) {
      std::uint64_t& sum = sums[sharded ? 1 : 0];
      for_each_piece(tensor, sharded, [&](const Piece& piece, std::size_t at) {
        for (const auto value : held.subspan(at, piece.count)) {
          sum = (sum ^ std::bit_cast<std::uint32_t>(to_float(value))) * 0x100000001b3U + 1;
        }
      });
    };
    mix(group.params, schedule_.home[tensor.group] == nowhere);
    if (Buffers::has_master && !tensor.frozen) mix(group.master, schedule_.traits.shards_optimizer);
    return sums;
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
