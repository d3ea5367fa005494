// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ShardedModule: a model that a proved stage trains, and how it is made. May include all of zero.
#pragma once
#include <concepts>
#include <cstddef>
#include <utility>
#include <zero/comm/communicator.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/module.hpp>
#include <zero/policy/proof.hpp>

namespace zero {

namespace detail {
template <class T, class ModelType, class Optimizers, class RanksOrMesh>
std::size_t bytes_needed(const StageValue& stage, const ModelType& model, std::size_t shards,
                         std::size_t replicas, const Optimizers& optimizers,
                         const RanksOrMesh& ranks, const ModuleOptions& options) {
  using Optimizer = optimizer_of<Optimizers>;
  const ParameterTable table(
      model, shards, precision_of<T>, stage.traits.shards_replicas ? replicas : 1, stage.whole,
      nullptr, memory_alignment, update_shape<Optimizer>(Groups<Optimizer>(optimizers)));
  const Schedules schedules(stage, table, options);
  return rank_bytes<Buffers<Optimizer::states>>(table, schedules,
                                                control_shape<Optimizer>(table, ranks, options));
}
}  // namespace detail

/// A Module whose stage is proved at compile time, for every number of units up to past its
/// period; the constructor proves the schedules of the actual model.
template <class StageType, class ModelType, class OptimizerType, class Comm, class T>
class ShardedModule : public Module<ModelType, OptimizerType, Comm, T> {
  static_assert(proven<StageType>);

 public:
  using Stage = StageType;  // what it is sharded by

  /// See zero::shard, which names the types.
  ShardedModule(ModelType model, const Mesh<Comm>& mesh, Groups<OptimizerType> optimizers,
                ModuleOptions options)
      : Module<ModelType, OptimizerType, Comm, T>(stage_value<StageType>, std::move(model), mesh,
                                                  std::move(optimizers), options) {}
};

/// A module that trains `model` in stage `StageType` over the ranks of `comm`, with weights of type
/// T; or with a Precision in place of T. `optimizers` is one optimizer, or zero::groups(...) of
/// several by the names of tensors.
///
/// Order:   collective; the caller keeps the communicator and may use it between steps.
/// Errors:  ContractError on every rank if their models, stages or types differ.
template <class StageType, class T = float, class ModelType, class Comm, class Optimizers>
ShardedModule<StageType, ModelType, detail::optimizer_of<Optimizers>, Comm, T> shard(
    ModelType model, Mesh<Comm> mesh, Optimizers optimizers, ModuleOptions options = {}) {
  return {std::move(model), std::move(mesh), std::move(optimizers), options};
}
/// The same with a mesh.
template <class StageType, class T = float, class ModelType, Communicator Comm, class Optimizers>
ShardedModule<StageType, ModelType, detail::optimizer_of<Optimizers>, Comm, T> shard(
    ModelType model, Comm& comm, Optimizers optimizers, ModuleOptions options = {}) {
  return {std::move(model), mesh(comm), std::move(optimizers), options};
}

/// The same in a stage that is chosen when the program runs, such as stage_value<Zero3>. Programs
/// prove such a stage themselves: static_assert(proven<Zero3>).
template <class T = float, class ModelType, class Comm, class Optimizers>
Module<ModelType, detail::optimizer_of<Optimizers>, Comm, T> shard(const StageValue& stage,
                                                                   ModelType model, Mesh<Comm> mesh,
                                                                   Optimizers optimizers,
                                                                   ModuleOptions options = {}) {
  return {stage, std::move(model), std::move(mesh), std::move(optimizers), options};
}
/// The same over all ranks of a communicator.
template <class T = float, class ModelType, Communicator Comm, class Optimizers>
Module<ModelType, detail::optimizer_of<Optimizers>, Comm, T> shard(const StageValue& stage,
                                                                   ModelType model, Comm& comm,
                                                                   Optimizers optimizers,
                                                                   ModuleOptions options = {}) {
  return {stage, std::move(model), mesh(comm), std::move(optimizers), options};
}

/// The same with the types of a Precision.
template <class StageType, Precision Types, class ModelType, class CommOrMesh, class Optimizers>
auto shard(ModelType model, CommOrMesh&& comm, Optimizers optimizers, ModuleOptions options = {}) {
  return shard<StageType, WithPrecision<Types>>(std::move(model), std::forward<CommOrMesh>(comm),
                                                std::move(optimizers), options);
}

/// Bytes that ModuleOptions::memory must hold on each rank for a module of these arguments; for the
/// mesh of a module, which may have further axes, or for a number of ranks that form `replicas`.
template <class T = float, class ModelType, class Comm, class Optimizers>
std::size_t bytes_needed(const StageValue& stage, const ModelType& model, const Mesh<Comm>& mesh,
                         const Optimizers& optimizers, const ModuleOptions& options = {}) {
  return detail::bytes_needed<T>(stage, model, mesh.shard.size(), mesh.replicate.size(), optimizers,
                                 mesh, options);
}
/// The same for a stage that is a value.
template <class T = float, class ModelType, class Optimizers>
std::size_t bytes_needed(const StageValue& stage, const ModelType& model, std::size_t ranks,
                         const Optimizers& optimizers, const ModuleOptions& options = {},
                         std::size_t replicas = 1) {
  if (replicas == 0 || ranks % replicas != 0) {
    throw ContractError("zero::bytes_needed: " + std::to_string(ranks) + " ranks do not make " +
                        std::to_string(replicas) +
                        " replicas; pass a divisor of the number of ranks");
  }
  return detail::bytes_needed<T>(stage, model, ranks / replicas, replicas, optimizers, ranks,
                                 options);
}
/// The bytes that a module of this stage needs on each rank.
template <class StageType, class T = float, class ModelType, class RanksOrMesh, class Optimizers>
std::size_t bytes_needed(const ModelType& model, const RanksOrMesh& ranks,
                         const Optimizers& optimizers, const ModuleOptions& options = {},
                         const std::same_as<std::size_t> auto... replicas) {
  return bytes_needed<T>(stage_value<StageType>, model, ranks, optimizers, options, replicas...);
}
template <class StageType, Precision Types, class ModelType, class RanksOrMesh, class Optimizers>
std::size_t bytes_needed(const ModelType& model, const RanksOrMesh& ranks,
                         const Optimizers& optimizers, const ModuleOptions& options = {},
                         const std::same_as<std::size_t> auto... replicas) {
  return bytes_needed<StageType, WithPrecision<Types>>(model, ranks, optimizers, options,
                                                       replicas...);
}

}  // namespace zero
