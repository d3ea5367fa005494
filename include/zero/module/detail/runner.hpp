// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Runs one step of a schedule on the streams, buffers and communicators of a rank. May include
// anything below module/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <zero/base/array.hpp>
#include <zero/base/list.hpp>
#include <zero/comm/communicator.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/buffers.hpp>
#include <zero/module/control.hpp>
#include <zero/module/detail/transfers.hpp>
#include <zero/module/options.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/schedule/print.hpp>

namespace zero::detail {

/// The backend of an Executor: each operation of a schedule as work on a stream.
///
/// Order: only enqueues; what is enqueued reads buffers and control when the stream gets there.
template <class Optimizer, class Comm>
class Runner : public Transfers<Optimizer, Comm> {
 public:
  using Base = Transfers<Optimizer, Comm>;
  using Buffers = typename Base::Buffers;
  using Streams = typename Base::Streams;
  using Event = typename Base::Device::Event;
  using Base::nth_access;

  Runner(const ParameterTable& parameters, const Mesh<Comm>& mesh, Buffers& buffers,
         Control& control, Streams& streams, const ModuleOptions& options,
         typename Base::Store* store = nullptr)
      : Base(parameters, mesh, buffers, control, streams, options, store),
        control_(control),
        measured_(parameters.groups().size()) {}

  /// The schedule whose steps come next, and how many of them have events of their own.
  /// `knows_scale`: whether the host does; else the device alone has it yet.
  void begin(const Schedule& schedule, std::span<Event> events, bool knows_scale = true) {
    schedule_ = &schedule;
    events_ = events;
    measured_.assign(measured_.size(), false);
    if (options_.record_spans) spans_.assign(schedule.steps.size(), Span{});
    if (knows_scale) work_.begin_step(streams_[StreamId::compute]);
  }

  void wait(StreamId on, std::uint32_t step) { streams_[on].wait(events_[step]); }
  void record(StreamId on, std::uint32_t step) { streams_[on].record(events_[step]); }

  /// Enqueues one step that is not the user's.
  void run(const Step& step) {
    note_begin(step);
    switch (step.op) {
      case Op::gather: gather_with_next(step); break;
      case Op::release: Base::release(step); break;
      case Op::reduce_scatter:
      case Op::all_reduce: Base::reduce(step); break;
      case Op::all_reduce_replicas:
      case Op::reduce_scatter_replicas: Base::reduce_replicas(step); break;
      case Op::gather_replicas: Base::gather_replicas(step); break;
      case Op::square_norm: square_norm(step); break;
      case Op::combine: combine(step); break;
      case Op::update: update(step); break;
      case Op::fetch_state: Base::fetch_state(step); break;
      case Op::store_state: Base::store_state(step); break;
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
      work_.fill(stream(step), gradient, 0);
      if (options_.poison) poison_padding(step, g, gradient);
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
  void poison_padding(const Step& step, std::size_t g, const Array& whole) {
    const FlatLayout& layout = parameters_.groups()[g].layout;
    std::size_t at = 0;
    for (std::size_t t = 0; t < layout.tensors(); ++t) {
      work_.fill(stream(step), whole.part(at, layout.tensor_offset(t) - at), nan_bytes);
      at = layout.tensor_offset(t) + layout.tensor_size(t);
    }
    work_.fill(stream(step), whole.part(at, whole.count - at), nan_bytes);
  }

  const List<Span>& spans() const { return spans_; }

 private:
  /// Gathers a group and, in one operation where the communicator can, those behind it that are of
  /// the same unit: it has one for each type of its tensors.
  void gather_with_next(const Step& step) {
    if constexpr (requires { mesh_.shard.grouped([] {}); }) {
      if (&step > gathered_from_ && &step < gathered_to_) return;
      const Step* const end = schedule_->steps.data() + schedule_->steps.size();
      const Step* next = &step + 1;
      while (Base::gathers_directly(step) && next != end && next->op == Op::gather &&
             this->group(*next).unit == this->group(step).unit && Base::gathers_directly(*next) &&
             waits_within(*next)) {
        for (const std::uint32_t w : next->waits) {
          if (w != no_wait) wait(next->stream, w);  // now, as it is issued now
        }
        ++next;
      }
      gathered_from_ = &step, gathered_to_ = next;
      if (next != &step + 1) {
        return mesh_.shard.grouped([this, &step, next] {
          for (const Step* s = &step; s != next; ++s) Base::gather(*s);
        });
      }
    }
    Base::gather(step);
  }

  /// Whether a step waits for nothing of the execution before, which may not have been, or not in
  /// the graph that is captured now: only the executor knows.
  bool waits_within(const Step& step) const {
    for (const std::uint32_t w : step.waits) {
      if (w != no_wait && w >= position(step)) return false;
    }
    return true;
  }

  using Base::buffers_, Base::mesh_, Base::options_, Base::parameters_, Base::schedule_,
      Base::streams_, Base::work_;
  using Base::label, Base::nan_bytes, Base::own_gradient, Base::own_index, Base::position,
      Base::rank, Base::shard, Base::stream;

  /// The norm of the own shard's part, in every stage, so that the sum has the same bits in all.
  void square_norm(const Step& step) {
    Array own = own_gradient(step);
    if (!schedule_->traits.shards_optimizer) own = own.part(rank() * shard(step), shard(step));
    work_.square_norm(stream(step), step.subject, own, own_index(step.subject));
    measured_[step.subject] = true;
  }
  /// The decision of all ranks. A group that the program leaves out has no part in the norm, though
  /// an earlier step has left one.
  void combine(const Step& step) {
    for (std::size_t g = 0; g < measured_.size(); ++g) {
      if (!measured_[g] && !parameters_.groups()[g].frozen) work_.no_norm(stream(step), g);
    }
    const bool contributes = mesh_.replicate.rank() == 0 || schedule_->traits.shards_replicas;
    const ControlView& live = control_.live();
    const ControlShape& shape = control_.shape();
    work_.pack(stream(step), mesh_.world.rank(), contributes);
    mesh_.world.all_reduce(stream(step), live.block, shape.world_block(), label(step));
    work_.read(stream(step));
    for (std::size_t a = 0; a < mesh_.axes.size(); ++a) {  // their schedules may be others
      work_.pack_axis(stream(step), a, mesh_.axes[a].rank());
      mesh_.axes[a].all_reduce(stream(step), live.block, shape.axis_block(a),
                               Label{info(step.op).name, "all units of a further axis"});
      work_.read_axis(stream(step), a);
    }
    work_.decide(stream(step));
  }
  void update(const Step& step) {
    const std::size_t g = step.subject, own = own_index(g);
    const bool sharded = schedule_->traits.shards_optimizer;
    const auto& group = schedule_->traits.offloads()
                            ? buffers_.group(g, nth_access(step, Space::state_slot, 0).index)
                            : buffers_.group(g);
    work_.update(stream(step), g, group, own_gradient(step), sharded ? own : 0,
                 sharded ? own + 1 : parameters_.groups()[g].layout.ranks());
  }

  void note_begin(const Step& step) {
    if (options_.record_spans) note(step, &Span::begin);
  }
  void note(const Step& step, double Span::*member) {
    work_.note(stream(step), spans_[position(step)].*member);
  }

  Control& control_;
  std::span<Event> events_;
  List<char> measured_;  // [group] has a part in the norm of this step
  const Step *gathered_from_ = nullptr, *gathered_to_ = nullptr;  // in one operation, the last time
  List<Span> spans_;
};

}  // namespace zero::detail
