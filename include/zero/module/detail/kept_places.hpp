// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Which elements of a tensor lie where in the buffers of a rank. May include anything below
// module/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <zero/base/array.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/detail/numbers.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/optim/cast.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero::detail {

/// Reads and writes the elements of whole tensors in buffers of which each rank holds a part.
template <class Comm, class Streams>
class KeptPlaces {
 public:
  KeptPlaces(const ParameterTable& parameters, const Mesh<Comm>& mesh, const Schedule& schedule,
             Streams& streams)
      : parameters_(parameters), mesh_(mesh), schedule_(schedule), streams_(streams) {}

 protected:
  /// How much of a group a buffer holds: all, the shard, or the part that this rank updates.
  enum class Held { whole, shard, part };
  Held params_held(std::size_t group) const {
    return schedule_.home[group] != nowhere ? Held::whole : Held::shard;
  }
  Held params_held(const TensorInfo& tensor) const { return params_held(tensor.group); }
  Held state_held() const {
    return schedule_.traits.shards_replicas    ? Held::part
           : schedule_.traits.shards_optimizer ? Held::shard
                                               : Held::whole;
  }
  /// Sets the elements [begin, end) of a tensor that lie here, rounded to `type` before anything
  /// else.
  void set(const TensorInfo& tensor, const Array& array, Held held, const Numbers& numbers,
           DataType type = DataType::fp32, std::size_t begin = 0,
           std::size_t end = ~std::size_t{0}) {
    for_each_piece(tensor, held, [&](const Piece& piece, std::size_t at) {
      const std::size_t first = std::max(begin, piece.tensor_begin);
      const std::size_t last = std::min(end, piece.tensor_begin + piece.count);
      if (first >= last) return;
      const Array part = array.part(at + (first - piece.tensor_begin), last - first);
      streams_.write(part, [&](const Array& to, std::size_t from) {
        float room[256];
        for (std::size_t done = 0; done < to.count; done += std::size(room)) {
          const std::span<float> some(room, std::min(to.count - done, std::size(room)));
          numbers.fill(first + from + done, some);
          round_to(type, some);
          cast(Array(some.data(), some.size()), to.part(done, some.size()));
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
    const auto copy = [&](const Piece& piece, std::size_t at) {
      streams_.read(array.part(at, piece.count), [&](const Array& from, std::size_t begin) {
        cast(from, Array(out.data() + piece.tensor_begin + begin, from.count));
      });
    };
    const auto seen = [&](const Piece& piece) {
      return out.subspan(piece.tensor_begin, piece.count);
    };
    read_pieces(tensor, held, seen, copy);
  }
  /// copy(piece, where it begins in a buffer) for what this rank holds, then seen(piece) of each
  /// piece to all ranks.
  template <class Seen, class Copy>
  void read_pieces(const TensorInfo& tensor, Held held, Seen seen, Copy copy) {
    for_each_piece(tensor, held, copy);
    if (held == Held::whole) return;
    const GroupInfo& group = parameters_.groups()[tensor.group];
    for (std::size_t r = 0; r < group.layout.ranks(); ++r) {
      const std::size_t shard = r / group.parts, replica = r % group.parts;
      group.layout.for_each_piece(r, [&](const Piece& piece) {
        if (piece.tensor != tensor.place) return;
        const std::span<float> to = seen(piece);
        const Label label{"read", tensor.name, 0};
        if (held == Held::shard) {
          mesh_.shard.broadcast(to.data(), to.size(), shard, label);
        } else {
          mesh_.world.broadcast(to.data(), to.size(), replica * mesh_.shard.size() + shard, label);
        }
      });
    }
  }

  const ParameterTable& parameters_;
  const Mesh<Comm>& mesh_;
  const Schedule& schedule_;
  Streams& streams_;
};

}  // namespace zero::detail
