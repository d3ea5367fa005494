// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// load: reads a checkpoint into what the ranks hold, on any mesh. May include base/, layout/ and
// comm/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/agree.hpp>
#include <zero/checkpoint/detail/check_conversion.hpp>
#include <zero/checkpoint/detail/listing.hpp>
#include <zero/checkpoint/detail/manifest_text.hpp>
#include <zero/checkpoint/detail/read_plan.hpp>
#include <zero/checkpoint/detail/store.hpp>
#include <zero/checkpoint/files.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/checkpoint/manifest.hpp>
#include <zero/comm/communicator.hpp>

namespace zero {

/// What a caller may choose of a load.
struct LoadOptions {
  /// Leaves the optimizer's state, counters, step and scalars as they are.
  bool weights_only = false;
  /// Loads what has the same name and lets the rest be, on either side.
  bool relaxed = false;
  /// Rounds weights or state that have fewer bits here than in the checkpoint.
  bool narrowing = false;
  /// Another file system than the machine's; it must live during the call.
  Files* files = nullptr;
};

/// What a load did.
struct LoadReport {
  std::string path;                           // of the checkpoint itself
  std::int64_t step = 0;                      // at which it was saved
  std::map<std::string, std::string> user{};  // what save() was given
  std::vector<std::string> missing{};         // is here, but not in the checkpoint
  std::vector<std::string> unexpected{};      // the reverse
  /// Bytes of tensors and headers that this rank needed. Each was read twice: to check it, and to
  /// take it.
  std::uint64_t bytes_read = 0;
};

namespace detail {

/// What of a state is matched to a manifest: names, shapes and types.
class Matcher {
 public:
  Matcher(const Manifest& manifest, const std::string& path, const LoadOptions& options)
      : manifest_(manifest), where_("zero::load: checkpoint '" + path + "': "), options_(options) {}

  /// Plans to read what both have; takes note of what one of them lacks.
  ///
  /// Errors:  CheckpointError for other shapes, types that do not convert, or, unless it is
  ///          relaxed, other names.
  void match(const HeldState& state, ReadPlan& plan, LoadReport& report) {
    std::map<std::string_view, std::size_t> stored;
    for (std::size_t t = 0; t < manifest_.tensors.size(); ++t) {
      stored.emplace(manifest_.tensors[t].name, t);
    }
    for (const HeldTensor& held : state.tensors) {
      const auto found = stored.find(held.name);
      if (!counts(held)) {
        if (found != stored.end()) stored.erase(found);
        continue;
      }
      if (found == stored.end()) {
        report.missing.push_back(held.name);
        continue;
      }
      match(held, found->second, plan, report);
      stored.erase(found);
    }
    for (const auto& [name, t] : stored) {
      if (counts(manifest_.tensors[t])) report.unexpected.emplace_back(name);
    }
    if (!options_.weights_only) match_scalars(state, report);
    if (options_.relaxed || (report.missing.empty() && report.unexpected.empty())) return;
    throw CheckpointError(
        where_ + "the names differ; missing in the checkpoint: " + text_of_names(report.missing) +
        "; only in the checkpoint: " + text_of_names(report.unexpected) +
        ". Load it into the model that it is of, or pass .relaxed = true");
  }

 private:
  bool counts(const std::string& part) const { return part == "weight" || !options_.weights_only; }

  /// Not what is state alone, where weights only are asked for.
  template <class Tensor>
  bool counts(const Tensor& tensor) const {
    return tensor.parts.empty() ||
           std::any_of(tensor.parts.begin(), tensor.parts.end(),
                       [&](const auto& part) { return this->counts(part.name); });
  }
  void match(const HeldTensor& held, std::size_t t, ReadPlan& plan, LoadReport& report) {
    const Manifest::Tensor& tensor = manifest_.tensors[t];
    if (!(held.shape == tensor.shape)) {
      throw CheckpointError(where_ + "tensor " + in_quotes(held.name) + " has the shape " +
                            text_of(held.shape) + " here and " + text_of(tensor.shape) +
                            " in the checkpoint; load it into the model that it is of");
    }
    std::set<std::string_view> matched;
    for (const HeldPart& part : held.parts) {
      if (!counts(part.name)) continue;
      std::size_t p = 0;
      while (p < tensor.parts.size() && tensor.parts[p].name != part.name) ++p;
      if (p == tensor.parts.size()) {
        report.missing.push_back(held.name + " (" + part.name + ")");
        continue;
      }
      matched.insert(part.name);
      check_conversion(where_ + "tensor " + in_quotes(held.name) + " (" + part.name + ")",
                       tensor.parts[p].exact_type(), part.exact_type(), options_.narrowing);
      plan.want(t, p, part);
    }
    for (const Manifest::Part& part : tensor.parts) {
      if (counts(part.name) && !matched.contains(part.name)) {
        report.unexpected.push_back(tensor.name + " (" + part.name + ")");
      }
    }
  }
  void match_scalars(const HeldState& state, LoadReport& report) const {
    for (const auto& [name, value] : state.scalars) {
      if (!manifest_.scalars.contains(name)) report.missing.push_back(name);
    }
    for (const auto& [name, value] : manifest_.scalars) {
      if (!state.scalars.contains(name)) report.unexpected.push_back(name);
      const auto limits = state.limits.find(name);
      if (limits == state.limits.end()) continue;
      const auto& [least, most] = limits->second;
      if (value >= least && value <= most) continue;
      throw CheckpointError(
          where_ + in_quotes(name) + " is " + std::to_string(value) + ", but here it is " +
          (value > most ? "at most " + std::to_string(most) : "at least " + std::to_string(least)) +
          "; load it into a module with other ModuleOptions::loss_scale");
    }
  }

  const Manifest& manifest_;
  std::string where_;
  const LoadOptions& options_;
};

/// The tensors with optimizer state, which may be a tensor of its own.
template <class Tensors>
std::set<std::string_view> names_with_state(const Tensors& tensors) {
  std::set<std::string_view> names;
  for (const auto& tensor : tensors) {
    const std::string_view name = tensor.name;
    const bool has = std::any_of(tensor.parts.begin(), tensor.parts.end(),
                                 [](const auto& part) { return part.name != "weight"; });
    if (has) names.insert(name.substr(0, name.rfind("/state.")));
  }
  return names;
}
/// Takes counters, step and scalars from a manifest. A counter goes with the optimizer state that
/// it counts the updates of: it stays where there is such state here, but none in the checkpoint.
inline void take_counts(const Manifest& manifest, HeldState& state) {
  const std::set<std::string_view> here = names_with_state(state.tensors),
                                   there = names_with_state(manifest.tensors);
  std::map<std::string_view, std::int64_t> counters;
  for (const Manifest::Tensor& tensor : manifest.tensors) {
    counters.emplace(tensor.name, tensor.counter);
  }
  for (HeldTensor& tensor : state.tensors) {
    const auto found = counters.find(tensor.name);
    const bool lacks = here.contains(tensor.name) && !there.contains(tensor.name);
    if (found != counters.end() && !lacks) tensor.counter = found->second;
  }
  for (auto& [name, value] : state.scalars) {
    const auto found = manifest.scalars.find(name);
    if (found != manifest.scalars.end()) value = found->second;
  }
  state.step = manifest.step;
}

/// Ranks must load in the same way. A collective.
template <Communicator Comm>
void compare_options(const LoadOptions& options, const Comm& world) {
  const std::uint64_t mine = (options.weights_only ? 1U : 0U) + (options.relaxed ? 2U : 0U) +
                             (options.narrowing ? 4U : 0U);
  std::vector<std::uint64_t> all(world.size());
  world.all_gather(&mine, all.data(), 1, Label{"compare options", {}, no_position});
  if (std::count(all.begin(), all.end(), mine) == static_cast<std::ptrdiff_t>(all.size())) return;
  throw CheckpointError(
      "zero::load: the ranks have different options; nothing was loaded. Pass the same on all "
      "ranks (this is rank " +
      std::to_string(world.rank()) + ")");
}

}  // namespace detail

/// Loads a checkpoint into what all ranks hold: `path` is its own, or the directory of several, of
/// which `latest` names one. The ranks may be others than those that saved it, in number and stage.
///
/// Each rank reads the bytes that it needs, and checks them all before any number changes.
///
/// Order:   collective.
/// Errors:  CheckpointError on all ranks: other names (both lists are in the text), shapes or
///          types; damage, with the file and the tensor. Nothing has changed then, unless the text
///          says so.
template <Communicator Comm>
LoadReport load(HeldState& state, const Comm& world, const std::string& path,
                const LoadOptions& options = {}) {
  Files& files = options.files == nullptr ? disk_files() : *options.files;
  detail::compare_options(options, world);
  LoadReport report;
  std::string text;
  detail::together(world, "zero::load", [&] {
    if (world.rank() != 0) return;
    report.path = detail::Store(files, path).resolve();
    text = detail::read_text(files, report.path + '/' + Manifest::file_name, Manifest::most_bytes);
  });
  detail::broadcast_text(world, report.path, 0);
  detail::broadcast_text(world, text, 0);
  Manifest manifest;
  detail::ReadPlan plan(manifest, files, report.path);
  detail::together(world, "zero::load", [&] {
    manifest = detail::read_manifest(
        text, "zero::load: file '" + report.path + '/' + Manifest::file_name + "'");
    detail::Matcher(manifest, report.path, options).match(state, plan, report);
    plan.verify();
  });
  report.bytes_read = plan.bytes_read();
  detail::together(world, "zero::load (weights may have changed: load again before using them)",
                   [&] { plan.take(); });
  if (!options.weights_only) detail::take_counts(manifest, state);
  report.step = manifest.step;
  report.user = manifest.user;
  return report;
}

/// Loads a checkpoint into a module between two steps.
template <HoldsState M>
LoadReport load(M& module, const std::string& path, const LoadOptions& options = {}) {
  HeldState state;
  detail::alike(module.mesh().world, "zero::load", [&] { state = module.held_state(); });
  LoadReport report = load(state, module.mesh().world, path, options);
  detail::alike(module.mesh().world,
                "zero::load (weights may have changed: load again before using them)",
                [&] { module.restore(state); });
  return report;
}

}  // namespace zero
