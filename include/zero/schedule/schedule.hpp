// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Schedule: what all ranks do in one execution of a program. Includes schedule/ only.
#pragma once

#include <cstdint>
#include <zero/base/list.hpp>
#include <zero/schedule/model_shape.hpp>
#include <zero/schedule/program.hpp>
#include <zero/schedule/step.hpp>

namespace zero {

/// Where optimizer state, with the masters, is kept from step to step: where it is updated, or
/// elsewhere.
enum class StateHome : std::uint8_t { here, host_memory, file };

/// What a stage does, as far as it decides where data lives and when a gradient is complete.
struct StageTraits {
  bool shards_params = false, shards_grads = false, shards_optimizer = false;  // what is sharded
  bool replicates = false;       // groups of ranks hold replicas of the shards
  bool shards_replicas = false;  // but of the optimizer state each replica holds a part only
  bool takes_turns =
      false;  // collectives run one by one in issue order, whatever their communicator
  StateHome state_home = StateHome::here;  // of optimizer state
  /// Whether optimizer state is kept elsewhere than where it is updated.
  constexpr bool offloads() const { return state_home != StateHome::here; }
  /// Whether its schedules may have steps on a stream.
  constexpr bool uses(StreamId stream) const {
    if (stream == StreamId::replicate) return replicates;
    return stream != StreamId::offload || offloads();
  }
  friend constexpr bool operator==(const StageTraits&, const StageTraits&) = default;
};

/// How many slots of each kind to have; a pool that does not grow makes its count a bound.
struct Slots {
  std::size_t count = 0;  // groups that are whole at once
  bool grows = true;      // whether units that read more groups get more slots
};

/// The steps of one execution of a program, the same on every rank, in issue order.
struct Schedule {
  ModelShape model{};              // units and groups
  StageTraits traits{};            // what is sharded
  Program program{};               // what is computed
  Index extent[space_count] = {};  // number of buffers in each space
  List<Index> home{};              // [group] slot of params_whole where it always is, or nowhere
  List<Step> steps{};              // in issue order
};

/// How many buffers a space has.
constexpr std::size_t extent(const Schedule& schedule, Space space) {
  return schedule.extent[static_cast<std::size_t>(space)];
}

}  // namespace zero
