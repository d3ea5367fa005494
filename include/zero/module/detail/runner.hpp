// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Runs one step of a schedule on the streams, buffers and communicators of a rank. May include
// anything below module/.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>
#include <vector>
#include <zero/comm/communicator.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/buffers.hpp>
#include <zero/module/control.hpp>
#include <zero/module/detail/host_streams.hpp>
#include <zero/module/detail/optimizers.hpp>
#include <zero/module/options.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/optim/norm.hpp>
#include <zero/optim/update.hpp>
#include <zero/schedule/print.hpp>

namespace zero::detail {

/// The backend of an Executor: each operation of a schedule as work on a stream.
///
/// Order: only enqueues; what is enqueued reads buffers and control when the stream gets there.
template <class Optimizer, class Comm, class T>
class Runner {
 public:
  using Buffers = zero::Buffers<T, Optimizer::states>;

  Runner(const ParameterTable& parameters, const Mesh<Comm>& mesh, Buffers& buffers,
         Control& control, HostStreams& streams, const Optimizers<Optimizer>& optimizers,
         const ModuleOptions& options)
      : parameters_(parameters),
        mesh_(mesh),
        buffers_(buffers),
        control_(control),
        streams_(streams),
        optimizers_(optimizers),
        options_(options) {}

  /// The schedule whose steps come next, and how many of them have events of their own.
  void begin(const Schedule& schedule, std::span<HostEvent> events) {
    schedule_ = &schedule;
    events_ = events;
    if (options_.record_spans) spans_.assign(schedule.steps.size(), Span{});
  }

  void wait(StreamId stream, std::uint32_t step) { streams_[stream].wait(events_[step]); }
  void record(StreamId stream, std::uint32_t step) { streams_[stream].record(events_[step]); }

  /// Enqueues one step that is not the user's.
  void run(const Step& step) {
    note_begin(step);
    switch (step.op) {
      case Op::gather: gather(step); break;
      case Op::release: release(step); break;
      case Op::reduce_scatter:
      case Op::all_reduce: reduce(step); break;
      case Op::all_reduce_replicas:
      case Op::reduce_scatter_replicas: reduce_replicas(step); break;
      case Op::gather_replicas: gather_replicas(step); break;
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
      const std::span<float> gradient =
          buffers_.whole_gradient(to.index).first(parameters_.padded(g));
      streams_[step.stream].enqueue([this, g, gradient] {
        std::fill(gradient.begin(), gradient.end(), 0.0F);
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

  static const Access& nth_access(const Step& step, Space space, std::size_t nth) {
    const Access* at = step.begin();
    while (at->space != space || nth-- > 0) ++at;
    return *at;
  }
  /// Fills what lies between and behind the tensors of a whole buffer of group g with NaN.
  template <class Number>
  void poison_padding(std::size_t g, std::span<Number> whole) const {
    const FlatLayout& layout = parameters_.groups()[g].layout;
    std::size_t at = 0;
    for (std::size_t t = 0; t < layout.tensors(); ++t) {
      std::fill(whole.begin() + offset(at), whole.begin() + offset(layout.tensor_offset(t)),
                nan<Number>());
      at = layout.tensor_offset(t) + layout.tensor_size(t);
    }
    std::fill(whole.begin() + offset(at), whole.end(), nan<Number>());
  }
  template <class Number>
  static Number nan() {
    return from_float<Number>(std::numeric_limits<float>::quiet_NaN());
  }

  /// Bytes of gathered groups that are not released, as far as the host has issued steps.
  std::size_t gathered_bytes() const { return gathered_bytes_; }
  /// Whether an update stopped half way.
  bool update_failed() const { return update_failed_; }
  void forget_gathered() { gathered_bytes_ = 0; }
  const std::vector<Span>& spans() const { return spans_; }

 private:
  static std::ptrdiff_t offset(std::size_t n) { return static_cast<std::ptrdiff_t>(n); }
  std::size_t rank() const { return mesh_.shard.rank(); }
  std::size_t shard(const Step& step) const { return parameters_.groups()[step.subject].shard(); }
  /// Elements of the part of a shard that one rank updates.
  std::size_t part(const Step& step) const {
    return parameters_.groups()[step.subject].layout.shard();
  }
  /// Which part of its shard this rank updates: all of it, or that of its replica.
  std::size_t own_part() const {
    return schedule_->traits.shards_replicas ? mesh_.replicate.rank() : 0;
  }
  /// The same, counted over all parts of a group.
  std::size_t own_index(std::size_t g) const {
    return rank() * parameters_.groups()[g].parts + own_part();
  }
  HostStream& stream(const Step& step) { return streams_[step.stream]; }
  Label label(const Step& step) const {
    const std::string_view unit =
        step.op == Op::combine
            ? std::string_view("all units")
            : std::string_view(parameters_.units()[parameters_.groups()[step.subject].unit].name);
    return Label{info(step.op).name, unit, position(step),
                 step.op == Op::combine ? no_position : step.micro_step};
  }
  std::uint32_t position(const Step& step) const {
    return static_cast<std::uint32_t>(&step - schedule_->steps.data());
  }
  bool at_home(const Step& step) const { return schedule_->home[step.subject] != nowhere; }

  void gather(const Step& step) {
    const std::size_t count = shard(step);
    const T* in = buffers_.group(step.subject).params.data();
    T* out = buffers_.whole_params(nth_access(step, Space::params_whole, 0).index).data();
    if (at_home(step)) {
      in = out + rank() * count;
    } else {
      gathered_bytes_ += parameters_.padded(step.subject) * sizeof(T);
    }
    mesh_.shard.all_gather(stream(step), in, out, count, label(step));
  }
  void release(const Step& step) {
    gathered_bytes_ -= parameters_.padded(step.subject) * sizeof(T);
    if (!options_.poison) return;
    const std::span<T> slot = buffers_.whole_params(nth_access(step, Space::params_whole, 0).index);
    stream(step).enqueue([slot] { std::fill(slot.begin(), slot.end(), nan<T>()); });
  }
  void reduce(const Step& step) {
    float* in = buffers_.whole_gradient(nth_access(step, Space::grads_whole, 0).index).data();
    const std::size_t count = shard(step);
    if (step.op == Op::all_reduce) {
      mesh_.shard.all_reduce(stream(step), in, parameters_.padded(step.subject), label(step));
    } else if (schedule_->traits.shards_grads) {
      const bool adds = nth_access(step, Space::grads_shard, 0).mode == Mode::update;
      mesh_.shard.reduce_scatter(stream(step), in, buffers_.group(step.subject).gradient.data(),
                                 count, adds ? Accumulate::yes : Accumulate::no, label(step));
    } else {
      mesh_.shard.reduce_scatter(stream(step), in, in + rank() * count, count, Accumulate::no,
                                 label(step));
    }
  }
  /// Where the reduced gradient of a step's group begins: the own shard, or everything.
  float* shard_gradient(const Step& step) {
    if (schedule_->traits.shards_grads) return buffers_.group(step.subject).gradient.data();
    float* whole = buffers_.whole_gradient(nth_access(step, Space::grads_whole, 0).index).data();
    return schedule_->traits.shards_optimizer ? whole + rank() * shard(step) : whole;
  }
  /// The same of what this rank updates.
  float* own_gradient(const Step& step) { return shard_gradient(step) + own_part() * part(step); }
  void reduce_replicas(const Step& step) {
    float* const shared = shard_gradient(step);
    if (step.op == Op::reduce_scatter_replicas) {
      mesh_.replicate.reduce_scatter(stream(step), shared, own_gradient(step), part(step),
                                     Accumulate::no, label(step));
    } else {
      const std::size_t count =
          schedule_->traits.shards_optimizer ? shard(step) : parameters_.padded(step.subject);
      mesh_.replicate.all_reduce(stream(step), shared, count, label(step));
    }
  }
  void gather_replicas(const Step& step) {
    T* const out =
        buffers_.group(step.subject).params.data() + (at_home(step) ? rank() * shard(step) : 0);
    mesh_.replicate.all_gather(stream(step), out + own_part() * part(step), out, part(step),
                               label(step));
  }
  /// The norm of the own shard's part, in every stage, so that the sum has the same bits in all.
  void square_norm(const Step& step) {
    const float* begin = own_gradient(step);
    if (!schedule_->traits.shards_optimizer) begin += rank() * shard(step);
    stream(step).enqueue([this, g = step.subject, begin, own = own_index(step.subject)] {
      NormPart part(control_.norm_order());
      const GroupInfo& info = parameters_.groups()[g];
      info.layout.for_each_piece(own, [&](const Piece& piece) {
        const TensorInfo& tensor = parameters_.tensors()[info.tensors[piece.tensor]];
        const bool counts = !tensor.replicated || mesh_.first_of_axes();
        part.add(begin + piece.shard_begin, piece.count, counts);
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
  void update_group(std::size_t g, const float* gradient, bool sharded, std::size_t own) {
    const GroupInfo& info = parameters_.groups()[g];
    if (sharded) return update_pieces(info, g, gradient, own, 0);
    for (std::size_t r = 0; r < info.layout.ranks(); ++r) {
      update_pieces(info, g, gradient, r, r * info.layout.shard());
    }
  }
  /// Updates the pieces of tensors in one rank's shard; `begin` is where that shard begins in the
  /// buffers.
  void update_pieces(const GroupInfo& info, std::size_t g, const float* gradient, std::size_t r,
                     std::size_t begin) {
    const typename Buffers::Group& group = buffers_.group(g);
    info.layout.for_each_piece(r, [&](const Piece& piece) {
      const std::size_t tensor = info.tensors[piece.tensor];
      if (!control_.present(tensor)) return;
      const auto coefficients = optimizers_.of(tensor).coefficients(
          control_.counter(tensor), control_.step() - 1, parameters_.tensors()[tensor].decay);
      const std::size_t at = begin + piece.shard_begin;
      float* states[Optimizer::states + 1] = {};
      for (std::size_t k = 0; k < Optimizer::states; ++k) states[k] = group.states[k].data() + at;
      zero::update<Optimizer>(coefficients, static_cast<float>(control_.divisor()),
                              static_cast<float>(control_.clip()), gradient + at,
                              group.master.data() + at, group.own.data() + at, states, piece.count);
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

  const ParameterTable& parameters_;
  const Mesh<Comm>& mesh_;
  Buffers& buffers_;
  Control& control_;
  HostStreams& streams_;
  const Optimizers<Optimizer>& optimizers_;
  const ModuleOptions& options_;
  const Schedule* schedule_ = nullptr;
  std::span<HostEvent> events_;
  std::vector<Span> spans_;
  std::size_t gathered_bytes_ = 0;
  std::atomic<bool> update_failed_{false};
};

}  // namespace zero::detail
