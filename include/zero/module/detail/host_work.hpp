// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What the operations of a schedule do on a host stream. May include anything below module/.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <zero/base/array.hpp>
#include <zero/device/host_stream.hpp>
#include <zero/device/memory.hpp>
#include <zero/module/buffers.hpp>
#include <zero/module/control.hpp>
#include <zero/module/detail/host_store.hpp>
#include <zero/module/detail/host_streams.hpp>
#include <zero/module/detail/on_device.hpp>
#include <zero/module/options.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/optim/cast.hpp>
#include <zero/optim/norm.hpp>
#include <zero/optim/update.hpp>

namespace zero::detail {

/// Order: each call enqueues; what is enqueued reads buffers and control when the stream gets
///        there, maybe while the host begins the next step with another schedule.
template <class Optimizer>
class HostWork {
  static_assert(ElementOptimizer<Optimizer> || RangeOptimizer<Optimizer>,
                "zero::shard: this optimizer has a kernel for CUDA devices only; give it `element` "
                "too, or use a mesh of devices.");

 public:
  using Group = typename Buffers<Optimizer::states>::Group;

  /// `store`: of optimizer state that is offloaded, if it is.
  HostWork(const ParameterTable& parameters, Control& control, HostStreams& streams,
           HostStore* store)
      : parameters_(parameters), control_(control), streams_(streams), store_(store) {}

  void begin_step(HostStream&) const {}
  void fill(HostStream& stream, const Array& array, int byte) const {
    if (array.count == 0) return;
    stream.enqueue("fill", [array, byte] { std::memset(array.data, byte, array.bytes()); });
  }
  /// Converts elements, times `scale`; with `adds` they are added to what is there.
  void convert(HostStream& stream, const Array& from, const Array& to, float scale,
               bool adds) const {
    stream.enqueue("convert", [from, to, scale, adds] {
      scale == 1 && !adds ? cast(from, to) : cast_scaled(from, to, scale, adds);
    });
  }
  /// The part of the norm that lies in `own`, the shard `index` of group g.
  void square_norm(HostStream& stream, std::size_t g, const Array& own, std::size_t index) const {
    stream.enqueue("norm", [this, g, own, index] {
      NormPart part(control_.norm_order());
      const TensorRange* const ranges = control_.live_ranges(g);
      parameters_.groups()[g].layout.for_each_piece(index, [&](const Piece& piece) {
        const bool counts = ranges[piece.tensor].counts != 0;
        with_type(own.type, [&]<class T>() {
          part.add(own.as<T>() + piece.shard_begin, piece.count, counts);
        });
      });
      control_.set_norm(g, part.value());
    });
  }
  void no_norm(HostStream& stream, std::size_t g) const {
    stream.enqueue("norm", [this, g] { control_.set_norm(g, 0); });
  }
  void pack(HostStream& stream, std::size_t rank, bool contributes_norm) const {
    stream.enqueue("pack", [this, rank, contributes_norm] {
      control_.pack(rank, contributes_norm, this->failed());
    });
  }
  void read(HostStream& stream) const {
    stream.enqueue("read", [this] { control_.read(); });
  }
  void pack_axis(HostStream& stream, std::size_t axis, std::size_t rank) const {
    stream.enqueue("pack", [this, axis, rank] { control_.pack_axis(axis, rank); });
  }
  void read_axis(HostStream& stream, std::size_t axis) const {
    stream.enqueue("read", [this, axis] { control_.read_axis(axis); });
  }
  void decide(HostStream& stream) const {
    stream.enqueue("decide", [this] { control_.decide(); });
  }
  /// Updates what `buffers` hold of shards [first, last) of group g, one behind the other.
  void update(HostStream& stream, std::size_t g, const Group& buffers, const Array& gradient,
              std::size_t first, std::size_t last) const {
    stream.enqueue("update", [this, g, &buffers, gradient, first, last] {
      // A combine that failed has left the decision of the step before.
      if (control_.live().record->update.applied == 0 || streams_.failed()) return;
      if (store_ != nullptr && store_->failed()) return store_->tear();
      for (std::size_t r = first; r < last; ++r) {
        update_shard(g, buffers, gradient, r, r - first);
      }
    });
  }
  /// Notes the time, in microseconds.
  void note(HostStream& stream, double& at) const {
    stream.enqueue("note", [&at] {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      at = std::chrono::duration<double, std::micro>(now).count();
    });
  }

 private:
  /// As ControlHead counts it.
  double failed() const {
    const double of_streams = streams_.failed() ? 1 : 0;
    if (store_ == nullptr || !store_->failed()) return of_streams;
    return of_streams + (store_->torn() ? ControlView::state_torn : ControlView::state_failed);
  }
  /// `nth` is which shard of those in the buffers it is.
  void update_shard(std::size_t g, const Group& buffers, const Array& gradient, std::size_t r,
                    std::size_t nth) const {
    const GroupInfo& info = parameters_.groups()[g];
    const std::size_t begin = nth * info.layout.shard();
    const ControlView& live = control_.live();
    const UpdateDecision& decision = live.record->update;
    info.layout.for_each_piece(r, [&](const Piece& piece) {
      const std::size_t tensor = info.tensors[piece.tensor];
      if (live.present[tensor] == 0) return;
      typename Optimizer::Coefficients coefficients;
      std::memcpy(&coefficients, live.coefficients + tensor * sizeof(coefficients),
                  sizeof(coefficients));
      const auto part = [&](const Array& whole) {
        return whole.part(begin + piece.shard_begin, piece.count);
      };
      std::array<Array, Optimizer::states + 1> states;
      for (std::size_t k = 0; k != Optimizer::states; ++k) {
        const StateLayout::Range range = info.states.range(piece, k);
        const std::size_t shard = nth * info.states.shard(info.layout, k);
        states[k] = buffers.states[k].part(shard + range.begin, range.count);
      }
      const UpdateArrays arrays{.gradient = part(gradient),
                                .master = part(buffers.master),
                                .compute = part(buffers.own),
                                .states = states.data(),
                                .gather = info.types.gather,
                                .random = live.random[tensor],
                                .begin = piece.tensor_begin};
      if constexpr (RangeOptimizer<Optimizer>) {
        Optimizer::update(coefficients, decision.divisor, decision.clip,
                          parameters_.tensors()[tensor].shape, arrays,
                          buffers.scratch.template as<float>());
      } else {
        zero::update<Optimizer>(coefficients, decision.divisor, decision.clip, arrays);
      }
    });
  }

  const ParameterTable& parameters_;
  Control& control_;
  HostStreams& streams_;
  HostStore* store_;
};

struct NothingStaged {
  explicit NothingStaged(std::size_t) {}
  std::span<std::byte> bytes() const { return {}; }
};

template <>
struct OnDevice<HostStream> {
  using Event = HostEvent;
  using Memory = HostMemory;
  using Staged = NothingStaged;
  using Streams = HostStreams;
  using Store = HostStore;
  template <class Optimizer>
  using Work = HostWork<Optimizer>;
  static constexpr bool is_host = true;
  static constexpr bool adds_in_reduce = true;
  static constexpr std::size_t scratch = 0;
};

}  // namespace zero::detail
