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
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include <zero/base/array.hpp>
#include <zero/comm/communicator.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/buffers.hpp>
#include <zero/module/control.hpp>
#include <zero/module/detail/host_streams.hpp>
#include <zero/module/detail/optimizers.hpp>
#include <zero/module/options.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/optim/cast.hpp>
#include <zero/optim/norm.hpp>
#include <zero/optim/update.hpp>
#include <zero/schedule/hash.hpp>
#include <zero/schedule/print.hpp>

namespace zero::detail {

/// The backend of an Executor: each operation of a schedule as work on a stream.
///
/// Order: only enqueues; what is enqueued reads buffers and control when the stream gets there.
template <class Optimizer, class Comm>
class Runner {
 public:
  using Buffers = zero::Buffers<Optimizer::states>;

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

  static const Access& nth_access(const Step& step, Space space, std::size_t nth) {
    const Access* at = step.begin();
    while (at->space != space || nth-- > 0) ++at;
    return *at;
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

  /// Bytes of gathered groups that are not released, as far as the host has issued steps.
  std::size_t gathered_bytes() const { return gathered_bytes_; }
  /// Whether an update stopped half way.
  bool update_failed() const { return update_failed_; }
  void forget_gathered() { gathered_bytes_ = 0; }
  const std::vector<Span>& spans() const { return spans_; }

 private:
  static constexpr int nan_bytes = 0xFF;  // of a NaN of every type
  static void fill(const Array& array, int byte) {
    if (array.count != 0) std::memset(array.data, byte, array.bytes());
  }
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

  const GroupInfo& group(const Step& step) const { return parameters_.groups()[step.subject]; }
  Array whole_params(const Step& step) const {
    return buffers_.whole_params(nth_access(step, Space::params_whole, 0).index, step.subject);
  }
  Array whole_gradient(const Step& step) const {
    return buffers_.whole_gradient(nth_access(step, Space::grads_whole, 0).index, step.subject);
  }
  /// Where elements that travel in another type than `held` do so, or `held` itself.
  Array in_transit(const Step& step, const Array& held, DataType type) const {
    return type == held.type ? held : buffers_.staging(step.stream, held.count, type);
  }
  /// Enqueues the conversion of one array into another, if they are two.
  void convert(const Step& step, const Array& from, const Array& to, float scale = 1,
               bool adds = false) {
    if (from.data == to.data) return;
    stream(step).enqueue("convert", [from, to, scale, adds] {
      scale == 1 && !adds ? cast(from, to) : cast_scaled(from, to, scale, adds);
    });
  }

  /// What is gathered in another type is rounded to it on all ranks alike, the own part as well.
  void gather(const Step& step) {
    const Array whole = whole_params(step);
    const Array sent = in_transit(step, whole, group(step).types.gather);
    const Array part = sent.part(rank() * shard(step), shard(step));
    Array own = buffers_.group(step.subject).params;
    if (at_home(step)) {
      convert(step, whole.part(rank() * shard(step), shard(step)), part);
      own = part;
    } else {
      gathered_bytes_ += whole.bytes();
    }
    with_type(sent.type, [&]<class T>() {
      mesh_.shard.all_gather(stream(step), static_cast<const T*>(own.as<T>()), sent.as<T>(),
                             part.count, label(step));
    });
    convert(step, sent, whole);
  }
  void release(const Step& step) {
    const Array slot = whole_params(step);
    gathered_bytes_ -= slot.bytes();
    if (options_.poison) stream(step).enqueue([slot] { fill(slot, nan_bytes); });
  }
  /// Sums of fp16 would overflow where averages do not.
  static Reduction reduction(DataType type) {
    return type == DataType::fp16 ? Reduction::average : Reduction::sum;
  }
  /// What turns the result of such a reduction into the sum over `ranks`.
  static float rescale(DataType type, std::size_t ranks) {
    return type == DataType::fp16 ? static_cast<float>(ranks) : 1.0F;
  }
  void reduce(const Step& step) {
    const Array whole = whole_gradient(step);
    const Array sent = in_transit(step, whole, group(step).types.reduce);
    const float scale = rescale(sent.type, mesh_.shard.size());
    const bool staged = sent.data != whole.data;
    convert(step, whole, sent);
    if (step.op == Op::all_reduce) {
      with_type(sent.type, [&]<class T>() {
        mesh_.shard.all_reduce(stream(step), sent.as<T>(), sent.count, label(step),
                               reduction(sent.type));
      });
      return convert(step, sent, whole, scale);
    }
    const bool shards = schedule_->traits.shards_grads;
    const bool adds = shards && nth_access(step, Space::grads_shard, 0).mode == Mode::update;
    const std::size_t begin = rank() * shard(step), count = shard(step);
    const Array own = shards ? buffers_.group(step.subject).gradient : whole.part(begin, count);
    const Array out = staged ? sent.part(begin, count) : own;
    with_type(sent.type, [&]<class T>() {
      mesh_.shard.reduce_scatter(stream(step), static_cast<const T*>(sent.as<T>()), out.as<T>(),
                                 count, adds && !staged ? Accumulate::yes : Accumulate::no,
                                 label(step), reduction(sent.type));
    });
    convert(step, out, own, scale, adds);
  }
  /// Where the reduced gradient of a step's group begins: the own shard, or everything.
  Array shard_gradient(const Step& step) {
    if (schedule_->traits.shards_grads) return buffers_.group(step.subject).gradient;
    const Array whole = whole_gradient(step);
    return schedule_->traits.shards_optimizer ? whole.part(rank() * shard(step), shard(step))
                                              : whole;
  }
  /// The same of what this rank updates.
  Array own_gradient(const Step& step) {
    const Array shared = shard_gradient(step);
    if (!schedule_->traits.shards_replicas) return shared;
    return shared.part(own_part() * part(step), part(step));
  }
  void reduce_replicas(const Step& step) {
    const Array shared = shard_gradient(step);
    const Array sent = in_transit(step, shared, group(step).types.reduce);
    const std::size_t ranks = mesh_.shard.size(), replicas = mesh_.replicate.size();
    const float scale = rescale(sent.type, ranks * replicas);
    // Averages again: of what the ranks of a replica have summed.
    convert(step, shared, sent, 1 / rescale(sent.type, ranks));
    with_type(sent.type, [&]<class T>() {
      if (step.op == Op::reduce_scatter_replicas) {
        const Array out = sent.part(own_part() * part(step), part(step));
        mesh_.replicate.reduce_scatter(stream(step), static_cast<const T*>(sent.as<T>()),
                                       out.as<T>(), part(step), Accumulate::no, label(step),
                                       reduction(sent.type));
        convert(step, out, own_gradient(step), scale);
      } else {
        mesh_.replicate.all_reduce(stream(step), sent.as<T>(), sent.count, label(step),
                                   reduction(sent.type));
        convert(step, sent, shared, scale);
      }
    });
  }
  void gather_replicas(const Step& step) {
    Array shard_params = buffers_.group(step.subject).params;
    if (at_home(step)) shard_params = shard_params.part(rank() * shard(step), shard(step));
    const Array sent = in_transit(step, shard_params, group(step).types.gather);
    const std::size_t begin = own_part() * part(step);
    const Array own = sent.part(begin, part(step));
    convert(step, shard_params.part(begin, part(step)), own);
    with_type(sent.type, [&]<class T>() {
      mesh_.replicate.all_gather(stream(step), static_cast<const T*>(own.as<T>()), sent.as<T>(),
                                 own.count, label(step));
    });
    convert(step, sent, shard_params);
  }
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
