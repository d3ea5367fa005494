// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The collectives of a schedule on the buffers and communicators of a rank. May include anything
// below module/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <zero/base/array.hpp>
#include <zero/comm/communicator.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/buffers.hpp>
#include <zero/module/control.hpp>
#include <zero/module/detail/on_device.hpp>
#include <zero/module/options.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero::detail {

/// The part of a Runner that gathers and reduces: where the operands of a step lie, and what
/// travels.
template <class Optimizer, class Comm>
class Transfers {
 public:
  using Buffers = zero::Buffers<Optimizer::states>;
  using Stream = typename Comm::Stream;
  using Device = OnDevice<Stream>;
  using Streams = typename Device::Streams;
  using Store = typename Device::Store;

  Transfers(const ParameterTable& parameters, const Mesh<Comm>& mesh, Buffers& buffers,
            Control& control, Streams& streams, const ModuleOptions& options, Store* store)
      : parameters_(parameters),
        mesh_(mesh),
        buffers_(buffers),
        streams_(streams),
        options_(options),
        store_(store),
        work_(parameters, control, streams, store) {}

  static const Access& nth_access(const Step& step, Space space, std::size_t nth) {
    const Access* at = step.begin();
    while (at->space != space || nth-- > 0) ++at;
    return *at;
  }
  /// Bytes of gathered groups that are not released, as far as the host has issued steps.
  std::size_t gathered_bytes() const { return gathered_bytes_; }
  void forget_gathered() { gathered_bytes_ = 0; }

 protected:
  static constexpr int nan_bytes = 0xFF;  // of a NaN of every type
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
  Stream& stream(const Step& step) { return streams_[step.stream]; }
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
    work_.convert(stream(step), from, to, scale, adds);
  }

  /// Whether a gather is a collective alone, without a conversion behind it.
  bool gathers_directly(const Step& step) const {
    return group(step).types.gather == whole_params(step).type;
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
      mesh_.shard.all_gather(this->stream(step), static_cast<const T*>(own.as<T>()), sent.as<T>(),
                             part.count, this->label(step));
    });
    convert(step, sent, whole);
  }
  void release(const Step& step) {
    const Array slot = whole_params(step);
    gathered_bytes_ -= slot.bytes();
    if (options_.poison) work_.fill(stream(step), slot, nan_bytes);
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
        mesh_.shard.all_reduce(this->stream(step), sent.as<T>(), sent.count, this->label(step),
                               reduction(sent.type));
      });
      return convert(step, sent, whole, scale);
    }
    const bool shards = schedule_->traits.shards_grads;
    const bool adds = shards && nth_access(step, Space::grads_shard, 0).mode == Mode::update;
    const std::size_t begin = rank() * shard(step), count = shard(step);
    const Array own = shards ? buffers_.group(step.subject).gradient : whole.part(begin, count);
    // Where a communicator cannot add, the own part of what was sent is free to receive the sum.
    const bool direct = !staged && (!adds || Device::adds_in_reduce);
    const Array out = direct ? own : sent.part(begin, count);
    with_type(sent.type, [&]<class T>() {
      mesh_.shard.reduce_scatter(this->stream(step), static_cast<const T*>(sent.as<T>()),
                                 out.as<T>(), count,
                                 adds && direct ? Accumulate::yes : Accumulate::no,
                                 this->label(step), reduction(sent.type));
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
        const Array out = sent.part(this->own_part() * this->part(step), this->part(step));
        mesh_.replicate.reduce_scatter(this->stream(step), static_cast<const T*>(sent.as<T>()),
                                       out.as<T>(), this->part(step), Accumulate::no,
                                       this->label(step), reduction(sent.type));
        this->convert(step, out, this->own_gradient(step), scale);
      } else {
        mesh_.replicate.all_reduce(this->stream(step), sent.as<T>(), sent.count, this->label(step),
                                   reduction(sent.type));
        this->convert(step, sent, shared, scale);
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
      mesh_.replicate.all_gather(this->stream(step), static_cast<const T*>(own.as<T>()),
                                 sent.as<T>(), own.count, this->label(step));
    });
    convert(step, sent, shard_params);
  }
  void fetch_state(const Step& step) {
    const StateRegions::Region& region = buffers_.regions()[step.subject];
    store_->fetch(stream(step), state_slot(step), region.begin, region.bytes);
  }
  void store_state(const Step& step) {
    const StateRegions::Region& region = buffers_.regions()[step.subject];
    store_->store(stream(step), state_slot(step), region.begin, region.bytes);
  }
  std::byte* state_slot(const Step& step) const {
    return buffers_.state_slot(nth_access(step, Space::state_slot, 0).index);
  }

  const ParameterTable& parameters_;
  const Mesh<Comm>& mesh_;
  Buffers& buffers_;
  Streams& streams_;
  const ModuleOptions& options_;
  Store* store_;  // of optimizer state that is offloaded
  typename Device::template Work<Optimizer> work_;
  const Schedule* schedule_ = nullptr;
  std::size_t gathered_bytes_ = 0;
};

}  // namespace zero::detail
