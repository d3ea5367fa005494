// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// load_weights: reads weights that others trained, from safetensors files, into what the ranks
// hold. May include base/, layout/ and comm/.
#pragma once

#include <memory>
#include <string>
#include <zero/checkpoint/detail/agree.hpp>
#include <zero/checkpoint/detail/weight_plan.hpp>
#include <zero/checkpoint/files.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/checkpoint/load.hpp>
#include <zero/checkpoint/load_weights_options.hpp>
#include <zero/checkpoint/weight_files.hpp>
#include <zero/comm/communicator.hpp>

namespace zero {

/// Loads weights from a safetensors file, or from a folder in the layout of Hugging Face, straight
/// into what all ranks hold; state of the optimizer, counters and scalars stay.
///
/// Rank 0 reads the headers; each rank then reads the bytes that it needs, once to see that it can
/// and once to take them. Masters and the weights that compute are both set.
///
/// Order:   collective; all ranks pass the same.
/// Errors:  CheckpointError on all ranks: other names (both lists are in the text), shapes or
///          types; damaged or hostile files. Nothing has changed then, unless the text says so.
template <Communicator Comm>
LoadReport load_weights(HeldState& state, const Comm& world, const std::string& path,
                        const LoadWeightsOptions& options = {}) {
  Files& files = options.files == nullptr ? disk_files() : *options.files;
  LoadReport report;
  std::unique_ptr<WeightFiles> from;
  std::string directory, text;
  detail::together(world, "zero::load_weights", [&] {
    if (world.rank() != 0) return;
    from = std::make_unique<WeightFiles>(path, files);
    directory = from->directory();
    text = from->text();
  });
  detail::broadcast_text(world, directory, 0);
  detail::broadcast_text(world, text, 0);
  std::unique_ptr<detail::WeightPlan> plan;
  detail::together(world, "zero::load_weights", [&] {
    if (!from) from = std::make_unique<WeightFiles>(directory, text, files);
    plan = std::make_unique<detail::WeightPlan>(*from);
    plan->match(state, options, report);
    plan->verify();
  });
  detail::together(world,
                   "zero::load_weights (weights may have changed: load again before using them)",
                   [&] { plan->take(); });
  report.path = path;
  report.step = state.step;
  report.bytes_read = plan->bytes_read();
  return report;
}

/// Loads weights into a module between two steps.
template <HoldsState M>
LoadReport load_weights(M& module, const std::string& path,
                        const LoadWeightsOptions& options = {}) {
  HeldState state;
  detail::alike(module.mesh().world, "zero::load_weights", [&] { state = module.held_state(); });
  LoadReport report = load_weights(state, module.mesh().world, path, options);
  detail::alike(module.mesh().world,
                "zero::load_weights (weights may have changed: load again before using them)",
                [&] { module.restore(state); });
  return report;
}

}  // namespace zero
