// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Runs one step of a schedule on the streams, buffers and communicators of a rank. May include
// anything below module/.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>
#include <zero/base/array.hpp>
#include <zero/comm/communicator.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/buffers.hpp>
#include <zero/module/control.hpp>
#include <zero/module/detail/host_streams.hpp>
#include <zero/module/detail/optimizers.hpp>
#include <zero/module/detail/transfers.hpp>
#include <zero/module/options.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/optim/norm.hpp>
#include <zero/optim/update.hpp>
#include <zero/schedule/hash.hpp>
#include <zero/schedule/print.hpp>

namespace zero::detail {

/// The backend of an Executor: each operation of a schedule as work on a stream.
///
/// Order: only enqueues; what is enqueued reads buffers and control when the stream gets there.
template <class Optimizer, class Comm>
class Runner : public Transfers<Buffers<Optimizer::states>, Comm> {
 public:
  using Buffers = zero::Buffers<Optimizer::states>;
  using Base = Transfers<Buffers, Comm>;
  using Base::nth_access;

  Runner(const ParameterTable& parameters, const Mesh<Comm>& mesh, Buffers& buffers,
         Control& control, HostStreams& streams, const Optimizers<Optimizer>& optimizers,
         const ModuleOptions& options)
      : Base(parameters, mesh, buffers, streams, options),
        control_(control),
        optimizers_(optimizers) {}

  /// The schedule whose steps come next, and how many of them have events of their own.
  void begin(const Schedule& schedule, std::span<HostEvent> events) {
    schedule_ = &schedule;
    events_ = events;
    if (options_.record_spans) spans_.assign(schedule.steps.size(), Span{});
  }

  void wait(StreamId on, std::uint32_t step) { streams_[on].wait(events_[step]); }
  void record(StreamId on, std::uint32_t step) { streams_[on].record(events_[step]); }

  /// Enqueues one step that is not the user's.
  void run(const Step& step) {
    note_begin(step);
    switch (step.op) {
      case Op::gather: Base::gather(step); break;
      case Op::release: Base::release(step); break;
      case Op::reduce_scatter:
      case Op::all_reduce: Base::reduce(step); break;
      case Op::all_reduce_replicas:
      case Op::reduce_scatter_replicas: Base::reduce_replicas(step); break;
      case Op::gather_replicas: Base::gather_replicas(step); break;
      case Op::square_norm: square_norm(step); break;
      case Op::combine: combine(step); break;
      case Op::update: update(step); break;
      default: break;
    }
    note_end(step);
  }
  /// Enqueues what comes before the user's code of a compute step: gradients begin at zero.
  void prepare(const Step& step) {
    note_begin(step);
    std::size_t nth = 0;
    for (const Index g : schedule_->model.unit(step.subject)) {
      if (parameters_.groups()[g].frozen || step.op != Op::backward) continue;
      const Access& to = nth_access(step, Space::grads_whole, nth++);
      if (to.mode != Mode::write) continue;
      const Array gradient = buffers_.whole_gradient(to.index, g);
      streams_[step.stream].enqueue([this, g = std::size_t{g}, gradient] {
        fill(gradient, 0);
        if (options_.poison) poison_padding(g, gradient);
      });
    }
  }
  /// What a unit that does not run leaves behind: a gradient of zero.
  void pass(const Step& step) {
    prepare(step);
    note_end(step);
  }
  void note_end(const Step& step) {
    if (options_.record_spans) note(step, &Span::end);
  }

  /// Fills what lies between and behind the tensors of a whole buffer of group g with NaN.
  void poison_padding(std::size_t g, const Array& whole) const {
    const FlatLayout& layout = parameters_.groups()[g].layout;
    std::size_t at = 0;
    for (std::size_t t = 0; t < layout.tensors(); ++t) {
      fill(whole.part(at, layout.tensor_offset(t) - at), nan_bytes);
      at = layout.tensor_offset(t) + layout.tensor_size(t);
    }
    fill(whole.part(at, whole.count - at), nan_bytes);
  }

  /// Whether an update stopped half way.
  bool update_failed() const { return update_failed_; }
  const std::vector<Span>& spans() const { return spans_; }

 private:
  using Base::buffers_, Base::mesh_, Base::options_, Base::parameters_, Base::schedule_,
      Base::streams_;
  using Base::fill, Base::label, Base::nan_bytes, Base::own_gradient, Base::own_index,
      Base::position, Base::rank, Base::shard, Base::stream;

  /// The norm of the own shard's part, in every stage, so that the sum has the same bits in all.
  void square_norm(const Step& step) {
    Array own = own_gradient(step);
    if (!schedule_->traits.shards_optimizer) own = own.part(rank() * shard(step), shard(step));
    stream(step).enqueue([this, g = step.subject, own, index = own_index(step.subject)] {
      NormPart part(control_.norm_order());
      const GroupInfo& info = parameters_.groups()[g];
      info.layout.for_each_piece(index, [&](const Piece& piece) {
        const TensorInfo& tensor = parameters_.tensors()[info.tensors[piece.tensor]];
        const bool counts = !tensor.replicated || mesh_.first_of_axes();
        with_type(own.type, [&]<class T>() {
          part.add(own.as<T>() + piece.shard_begin, piece.count, counts);
        });
      });
      control_.set_norm(g, part.value());
    });
  }
  void combine(const Step& step) {
    const bool contributes = mesh_.replicate.rank() == 0 || schedule_->traits.shards_replicas;
    stream(step).enqueue(
        [this, contributes] { control_.pack(mesh_.world.rank(), contributes, streams_.failed()); });
    mesh_.world.all_reduce(stream(step), control_.block().data(), control_.block().size(),
                           label(step));
    stream(step).enqueue([this] { control_.read(); });
    for (std::size_t a = 0; a < mesh_.axes.size(); ++a) {  // their schedules may be others
      const std::span<double> block = control_.axis_block(a);
      stream(step).enqueue([this, a] { control_.pack_axis(a, mesh_.axes[a].rank()); });
      mesh_.axes[a].all_reduce(stream(step), block.data(), block.size(),
                               Label{info(step.op).name, "all units of a further axis"});
      stream(step).enqueue([this, a] { control_.read_axis(a); });
    }
    stream(step).enqueue([this] { control_.decide(); });
  }
  void update(const Step& step) {
    // Runs while the host begins the next step, maybe with another schedule.
    const std::size_t g = step.subject;
    const bool sharded = schedule_->traits.shards_optimizer;
    stream(step).enqueue([this, sharded, g, gradient = own_gradient(step), own = own_index(g)] {
      // A combine that failed has left the decision of the step before.
      if (!control_.applied() || streams_.failed()) return;
      try {
        update_group(g, gradient, sharded, own);
      } catch (...) {  // of a function for the learning rate
        update_failed_ = true;
        throw;
      }
    });
  }
  void update_group(std::size_t g, const Array& gradient, bool sharded, std::size_t own) {
    const GroupInfo& info = parameters_.groups()[g];
    if (sharded) return update_pieces(info, g, gradient, own, 0);
    for (std::size_t r = 0; r < info.layout.ranks(); ++r) {
      update_pieces(info, g, gradient, r, r * info.layout.shard());
    }
  }
  /// Updates the pieces of tensors in one rank's shard; `begin` is where that shard begins in the
  /// buffers.
  void update_pieces(const GroupInfo& info, std::size_t g, const Array& gradient, std::size_t r,
                     std::size_t begin) {
    const typename Buffers::Group& group = buffers_.group(g);
    info.layout.for_each_piece(r, [&](const Piece& piece) {
      const std::size_t tensor = info.tensors[piece.tensor];
      if (!control_.present(tensor)) return;
      const auto coefficients = optimizers_.of(tensor).coefficients(
          control_.counter(tensor), control_.step() - 1, parameters_.tensors()[tensor].decay);
      const auto part = [&](const Array& whole) {
        return whole.part(begin + piece.shard_begin, piece.count);
      };
      std::array<Array, Optimizer::states + 1> states;
      for (std::size_t k = 0; k < Optimizer::states; ++k) states[k] = part(group.states[k]);
      const std::string& name = parameters_.tensors()[tensor].name;
      zero::update<Optimizer>(
          coefficients, static_cast<float>(control_.divisor()), static_cast<float>(control_.clip()),
          {.gradient = part(gradient),
           .master = part(group.master),
           .compute = part(group.own),
           .states = states.data(),
           .gather = info.types.gather,
           .random = RandomBits{}
                         .with(options_.rounding_seed)
                         .with(Hasher().mix(name).value())
                         .with(static_cast<std::uint64_t>(control_.counter(tensor))),
           .begin = piece.tensor_begin});
    });
  }

  void note_begin(const Step& step) {
    if (options_.record_spans) note(step, &Span::begin);
  }
  void note(const Step& step, double Span::*member) {
    stream(step).enqueue([this, at = position(step), member] {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      spans_[at].*member = std::chrono::duration<double, std::micro>(now).count();
    });
  }

  Control& control_;
  const Optimizers<Optimizer>& optimizers_;
  std::span<HostEvent> events_;
  std::vector<Span> spans_;
  std::atomic<bool> update_failed_{false};
};

}  // namespace zero::detail
