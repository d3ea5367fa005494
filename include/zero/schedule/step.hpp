// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Step: operations, streams and buffers, the words of a schedule. Includes the standard library.
#pragma once

#include <cstddef>
#include <cstdint>

namespace zero {

using Index = std::uint16_t;                                 // a unit, group, slot or micro-step
inline constexpr Index nowhere = 0xFFFF;                     // stands for no unit, group or slot
inline constexpr std::uint32_t no_wait = ~std::uint32_t{0};  // stands for no step
inline constexpr std::size_t max_groups = 4;     // groups of parameters that one unit may read
inline constexpr std::size_t max_accesses = 10;  // buffers that one step may touch

/// In-order queues. Steps of one stream run in the order in which they are issued.
/// The last one is used only where optimizer state is kept elsewhere than where it is updated.
enum class StreamId : std::uint8_t { compute, gather, reduce, replicate, offload };
inline constexpr std::size_t stream_count = 5;  // how many streams there are
/// The name of a stream.
constexpr const char* name_of(StreamId stream) {
  constexpr const char* names[stream_count] = {"compute", "gather", "reduce", "replicate",
                                               "offload"};
  return names[static_cast<std::size_t>(stream)];
}

/// Where data lives; the comment says what the index counts.
enum class Space : std::uint8_t {
  params_shard,  // [group] this rank's part; exists only where parameters are sharded
  params_whole,  // [slot]
  grads_whole,   // [slot]
  grads_shard,   // [group] exists only where gradients are sharded
  optimizer,     // [group] where it is kept
  activations,   // [unit, or unit, micro-step and use] what a forward keeps for its backward
  flow,          // [0] what one unit passes to the next, forward and backward
  control,       // [0] squared norm and finite check of all gradients
  device,        // [0] the room on the device that collectives need, where they must take turns
  state_slot,    // [slot] optimizer state while it is updated, where it is kept elsewhere
};
inline constexpr std::size_t space_count = 10;  // how many spaces there are

/// How a step touches a buffer. For gradients and control, `write` begins a sum and `update` adds.
enum class Mode : std::uint8_t { none, read, write, update };

/// What a step does. Forward and backward act on a unit, combine on everything, the others on a
/// group.
enum class Op : std::uint8_t {
  none,
  gather,
  release,
  forward,
  backward,
  reduce_scatter,
  all_reduce,
  all_reduce_replicas,
  reduce_scatter_replicas,
  gather_replicas,
  square_norm,
  combine,
  update,
  fetch_state,
  store_state,
};
inline constexpr std::size_t op_count = 15;  // how many operations there are

/// How an operation touches a space.
struct Operand {
  Space space{};           // which
  Mode mode = Mode::none;  // how
};
/// What is known of an operation.
struct OpInfo {
  const char* name;     // as it is printed
  StreamId stream;      // on which it runs
  Operand operands[4];  // what it touches
};

/// What every operation reads and writes. One rule completes the table: the shard of what is not
/// sharded is the whole, so ZeRO-1 gathers and reduces in place, and the slot of optimizer state
/// that is not offloaded is where it is kept. What is sharded over the replicas
/// too has no buffers of its own: each replica's part of a shard lies in its place in the shard.
inline constexpr OpInfo op_table[op_count] = {
    {"none", StreamId::compute, {}},
    {"gather",
     StreamId::gather,
     {{Space::params_shard, Mode::read}, {Space::params_whole, Mode::write}}},
    {"release", StreamId::compute, {{Space::params_whole, Mode::write}}},
    {"forward",
     StreamId::compute,
     {{Space::params_whole, Mode::read},
      {Space::activations, Mode::write},
      {Space::flow, Mode::update}}},
    {"backward",
     StreamId::compute,
     {{Space::params_whole, Mode::read},
      {Space::grads_whole, Mode::update},
      {Space::activations, Mode::read},
      {Space::flow, Mode::update}}},
    {"reduce_scatter",
     StreamId::reduce,
     {{Space::grads_whole, Mode::read}, {Space::grads_shard, Mode::update}}},
    {"all_reduce", StreamId::reduce, {{Space::grads_whole, Mode::update}}},
    {"all_reduce_replicas", StreamId::replicate, {{Space::grads_shard, Mode::update}}},
    {"reduce_scatter_replicas", StreamId::replicate, {{Space::grads_shard, Mode::update}}},
    {"gather_replicas", StreamId::replicate, {{Space::params_shard, Mode::update}}},
    {"square_norm",
     StreamId::reduce,
     {{Space::grads_shard, Mode::read}, {Space::control, Mode::update}}},
    {"combine", StreamId::reduce, {{Space::control, Mode::update}}},
    {"update",
     StreamId::compute,
     {{Space::grads_shard, Mode::read},
      {Space::control, Mode::read},
      {Space::state_slot, Mode::update},
      {Space::params_shard, Mode::update}}},
    {"fetch_state",
     StreamId::offload,
     {{Space::optimizer, Mode::read}, {Space::state_slot, Mode::write}}},
    {"store_state",
     StreamId::offload,
     {{Space::state_slot, Mode::read}, {Space::optimizer, Mode::write}}},
};
/// What is known of an operation.
constexpr const OpInfo& info(Op op) { return op_table[static_cast<std::size_t>(op)]; }
/// Whether user code runs.
constexpr bool computes(Op op) { return op == Op::forward || op == Op::backward; }
/// Whether an operation is a collective of the ranks that hold the same shard.
constexpr bool across_replicas(Op op) {
  return op == Op::all_reduce_replicas || op == Op::reduce_scatter_replicas ||
         op == Op::gather_replicas;
}
/// Whether it is a collective.
constexpr bool communicates(Op op) {
  return op == Op::gather || op == Op::reduce_scatter || op == Op::all_reduce ||
         op == Op::combine || across_replicas(op);
}

/// How a step touches a buffer.
struct Access {
  Space space{};           // where
  Mode mode = Mode::none;  // how
  Index index = nowhere;   // which buffer of the space
  friend constexpr bool operator==(const Access&, const Access&) = default;
};

/// One line of a schedule. An executor waits for `waits`, runs `op` on the accesses and, if the
/// step signals, records an event. `waits[t]` names the step of stream t that must be complete; if
/// it is not earlier than this one, its previous execution is meant, which is what an event's
/// latest record is. So a schedule is a cycle, and the boundary of two training steps costs
/// nothing.
struct Step {
  Op op = Op::none;                     // what it does
  StreamId stream = StreamId::compute;  // on which it runs
  Index subject = 0;                    // unit or group
  Index micro_step = 0;                 // in which micro-step
  std::uint8_t access_count = 0;        // how many accesses
  bool signals = false;                 // whether somebody waits for it
  /// What must be complete, by stream.
  std::uint32_t waits[stream_count] = {no_wait, no_wait, no_wait, no_wait, no_wait};
  Access accesses[max_accesses] = {};  // what it touches

  /// The first access.
  constexpr const Access* begin() const { return accesses; }
  /// Behind the last access.
  constexpr const Access* end() const { return accesses + access_count; }
  /// One more; where it is what the one before touches, the step works in place and updates that.
  constexpr void add(Access access) {
    const Access last = access_count == 0 ? Access{} : accesses[access_count - 1];
    if (last.mode != Mode::none && last.space == access.space && last.index == access.index) {
      accesses[access_count - 1].mode = Mode::update;
    } else {
      accesses[access_count++] = access;
    }
  }
  friend constexpr bool operator==(const Step&, const Step&) = default;
};
static_assert(sizeof(Step) == 68);

}  // namespace zero
