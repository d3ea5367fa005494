// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ShardedModule: a model that a proved stage trains, and how it is made. May include all of zero.
#pragma once
#include <cstddef>
#include <utility>
#include <zero/comm/communicator.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/module.hpp>
#include <zero/policy/proof.hpp>

namespace zero {

/// A Module whose stage is proved at compile time, for every number of units up to past its
/// period; the constructor proves the schedules of the actual model.
template <class StageType, class ModelType, class OptimizerType, class Comm, class T>
class ShardedModule : public Module<ModelType, OptimizerType, Comm, T> {
  static_assert(proven<StageType>);

 public:
  using Stage = StageType;

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
template <class StageType, class T = float, class ModelType, Communicator Comm, class Optimizers>
ShardedModule<StageType, ModelType, detail::optimizer_of<Optimizers>, Comm, T> shard(
    ModelType model, Comm& comm, Optimizers optimizers, ModuleOptions options = {}) {
  return {std::move(model), mesh(comm), std::move(optimizers), options};
}

template <class StageType, Precision Types, class ModelType, class CommOrMesh, class Optimizers>
auto shard(ModelType model, CommOrMesh&& comm, Optimizers optimizers, ModuleOptions options = {}) {
  return shard<StageType, WithPrecision<Types>>(std::move(model), std::forward<CommOrMesh>(comm),
                                                std::move(optimizers), options);
}

/// Bytes that ModuleOptions::memory must hold on each rank for a module of these arguments.
template <class StageType, class T = float, class ModelType, class Optimizers>
std::size_t bytes_needed(const ModelType& model, std::size_t ranks, const Optimizers& optimizers,
                         const ModuleOptions& options = {}, std::size_t replicas = 1) {
  if (replicas == 0 || ranks % replicas != 0) {
    throw ContractError("zero::bytes_needed: " + std::to_string(ranks) + " ranks do not make " +
                        std::to_string(replicas) +
                        " replicas; pass a divisor of the number of ranks");
  }
  const Groups<detail::optimizer_of<Optimizers>> groups(optimizers);
  const ParameterTable table(model, ranks / replicas, precision_of<T>,
                             StageType::traits.shards_replicas ? replicas : 1,
                             StageType::whole_below(), nullptr, memory_alignment,
                             detail::update_shape<detail::optimizer_of<Optimizers>>(groups));
  const detail::Schedules schedules(stage_value<StageType>, table, options);
  return detail::rank_bytes<Buffers<detail::optimizer_of<Optimizers>::states>>(
      table, schedules,
      detail::control_shape<detail::optimizer_of<Optimizers>>(table, ranks, options));
}
/// The same for the mesh of a module, which may have further axes.
template <class StageType, class T = float, class ModelType, class Comm, class Optimizers>
std::size_t bytes_needed(const ModelType& model, const Mesh<Comm>& mesh,
                         const Optimizers& optimizers, const ModuleOptions& options = {}) {
  const Groups<detail::optimizer_of<Optimizers>> groups(optimizers);
  const ParameterTable table(model, mesh.shard.size(), precision_of<T>,
                             StageType::traits.shards_replicas ? mesh.replicate.size() : 1,
                             StageType::whole_below(), nullptr, memory_alignment,
                             detail::update_shape<detail::optimizer_of<Optimizers>>(groups));
  const detail::Schedules schedules(stage_value<StageType>, table, options);
  return detail::rank_bytes<Buffers<detail::optimizer_of<Optimizers>::states>>(
      table, schedules,
      detail::control_shape<detail::optimizer_of<Optimizers>>(table, mesh, options));
}
template <class StageType, Precision Types, class ModelType, class RanksOrMesh, class Optimizers>
std::size_t bytes_needed(const ModelType& model, const RanksOrMesh& ranks,
                         const Optimizers& optimizers, const ModuleOptions& options = {}) {
  return bytes_needed<StageType, WithPrecision<Types>>(model, ranks, optimizers, options);
}
template <class StageType, Precision Types, class ModelType, class Optimizers>
std::size_t bytes_needed(const ModelType& model, std::size_t ranks, const Optimizers& optimizers,
                         const ModuleOptions& options, std::size_t replicas) {
  return bytes_needed<StageType, WithPrecision<Types>>(model, ranks, optimizers, options, replicas);
}

}  // namespace zero
