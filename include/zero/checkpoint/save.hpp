// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// save: writes what all ranks hold as one checkpoint, which exists whole or not at all. May include
// base/, layout/ and comm/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/agree.hpp>
#include <zero/checkpoint/detail/digest.hpp>
#include <zero/checkpoint/detail/manifest_text.hpp>
#include <zero/checkpoint/detail/rank_file.hpp>
#include <zero/checkpoint/detail/store.hpp>
#include <zero/checkpoint/files.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/checkpoint/manifest.hpp>
#include <zero/comm/communicator.hpp>

namespace zero {

/// What a caller may choose of a save.
struct SaveOptions {
  /// What the checkpoint is called; empty: step-N after N applied steps. One of that name is
  /// replaced.
  std::string name{};
  /// How many numbered checkpoints stay, this one included; 0: all.
  std::size_t keep = 0;
  /// Text of the caller's, such as the position in the data; zero::load returns it.
  std::map<std::string, std::string> user{};
  /// Bytes that have one digest; a power of two.
  std::uint64_t chunk_bytes = std::uint64_t{1} << 22;
  /// Told what this rank has written of its part, in bytes, by the thread that writes.
  std::function<void(std::uint64_t done, std::uint64_t all)> progress{};
  /// Another file system than the machine's; it must live during the call.
  Files* files = nullptr;
};

namespace detail {

/// What one rank saves, and of what it consists.
struct SaveJob {
  HeldState state;
  std::string path;
  SaveOptions options;
  std::vector<std::uint64_t> replicas{};  // [part of a tensor] see weighed
  Fetch fetch{};                          // if the numbers are not where the state says

  std::string name() const {
    return options.name.empty() ? Store::numbered_name(state.step) : options.name;
  }
  Files& files() const { return options.files == nullptr ? disk_files() : *options.files; }
};

/// What a rank adds to the sum over all ranks that tells whether the holders of something hold the
/// same bits: the first one's digest times the number of the others, less their digests, is zero
/// then, and else only by chance.
constexpr std::uint64_t weighed(std::uint64_t digest, std::size_t holders, std::size_t holder) {
  return holder == 0 ? digest * (holders - 1) : 0 - digest;
}
inline std::vector<std::uint64_t> weigh_replicas(const HeldState& state) {
  std::vector<std::uint64_t> sums;
  for (const HeldTensor& tensor : state.tensors) {
    for (const HeldPart& part : tensor.parts) {
      std::uint64_t digest = 0;
      if (part.holders > 1) {
        for (const HeldRange& range : part.ranges) {
          digest += quick_digest(range.data, range.count * size_of(part.type), range.begin);
        }
      }
      sums.push_back(weighed(digest, part.holders, part.holder));
    }
  }
  return sums;
}

/// The manifest without its files.
///
/// Errors:  ContractError for options that make no sense.
inline Manifest describe(const SaveJob& job) {
  Store::check_name(job.name());
  if (!Manifest::is_chunk(job.options.chunk_bytes)) {
    throw ContractError("zero::save: chunk_bytes must be a power of two from " +
                        std::to_string(Manifest::least_chunk) + " to " +
                        std::to_string(Manifest::largest_chunk) + ", but is " +
                        std::to_string(job.options.chunk_bytes));
  }
  Manifest manifest;
  manifest.step = job.state.step;
  manifest.chunk_bytes = job.options.chunk_bytes;
  manifest.scalars = job.state.scalars;
  manifest.user = job.options.user;
  for (const HeldTensor& tensor : job.state.tensors) {
    manifest.tensors.push_back({tensor.name, tensor.shape, tensor.counter});
    for (const HeldPart& part : tensor.parts) {
      manifest.tensors.back().parts.push_back({part.name, part.type, part.exact_in});
    }
  }
  return manifest;
}

/// Ranks that should hold the same must hold the same bits. A collective.
template <Communicator Comm>
void compare_replicas(const SaveJob& job, const Manifest& manifest, const Comm& world) {
  std::vector<std::uint64_t> sums;
  together(world, "zero::save", [&] {
    const std::string text = write_manifest(manifest) + job.name();
    sums.push_back(weighed(quick_digest(text.data(), text.size(), 0), world.size(), world.rank()));
  });
  const Label label{"compare replicas", {}, no_position};
  world.all_reduce(sums.data(), 1, label);
  if (sums[0] != 0) {
    throw CheckpointError(
        "zero::save: the ranks have different tensors, counters, scalars or options; nothing was "
        "written. Pass the same on all ranks (this is rank " +
        std::to_string(world.rank()) + ")");
  }
  sums = job.replicas;
  if (!sums.empty()) world.all_reduce(sums.data(), sums.size(), label);
  std::size_t at = 0;
  for (const HeldTensor& tensor : job.state.tensors) {
    for (const HeldPart& part : tensor.parts) {
      if (sums[at++] == 0) continue;
      throw CheckpointError("zero::save: tensor " + in_quotes(tensor.name) + " (" + part.name +
                            ") differs between ranks that should hold the same; nothing was "
                            "written. Load a checkpoint, or find what changed one of them");
    }
  }
}

/// Saves what the jobs of all ranks say. A collective.
template <Communicator Comm>
std::string run(const SaveJob& job, const Comm& world) {
  const bool first = world.rank() == 0;
  Manifest manifest;
  together(world, "zero::save", [&] { manifest = describe(job); });
  compare_replicas(job, manifest, world);
  const std::string name = job.name();
  Store store(job.files(), job.path);
  bool committing = false;
  try {
    together(world, "zero::save", [&] {
      if (first) store.begin(name);
    });
    Manifest::File own;
    std::string record;
    together(world, "zero::save", [&] {
      own = write_rank_file(store.files(), store.temporary(name), world.rank(), job.state, manifest,
                            job.options.progress, job.fetch);
      record = write_file_record(own);
    });
    for (std::size_t rank = 0; rank < world.size(); ++rank) {
      std::string text = rank == world.rank() ? record : std::string();
      broadcast_text(world, text, rank);
      if (!first) continue;
      Manifest::File file = read_file_record(text);
      if (!file.pieces.empty()) manifest.files.push_back(std::move(file));
    }
    together(world, "zero::save", [&] {
      if (!first) return;
      const std::string file = store.temporary(name) + '/' + Manifest::file_name;
      manifest.check("zero::save: the list of what the ranks hold");
      write_text(store.files(), file, write_manifest(manifest));
      committing = true;
      store.commit(name);
    });
  } catch (...) {
    // Once the names are exchanged, the earlier checkpoint may lie there.
    if (first && !committing) store.give_up(name);
    throw;
  }
  together(world, "zero::save (the checkpoint is complete; what follows it)", [&] {
    if (!first) return;
    store.point_latest(name);
    store.retain(name, job.options.keep);
  });
  return store.in(name);
}

}  // namespace detail

/// Saves what all ranks hold as a checkpoint in the directory `path`, which is made if need be, and
/// makes `latest` name it. Returns its own path.
///
/// Each rank writes its part; elements that several hold are written once, by all of them in equal
/// parts. Whatever fails or dies, and when: `path` then holds the earlier checkpoints, and this one
/// whole or not at all.
///
/// Order:   collective; returns when the checkpoint is durable. One save at a time into a `path`.
/// Errors:  CheckpointError on all ranks if one failed, or if replicas differ. If the text says
///          that the checkpoint is complete, only `latest` or the removal of older ones failed.
template <Communicator Comm>
std::string save(const HeldState& state, const Comm& world, const std::string& path,
                 const SaveOptions& options = {}) {
  return detail::run(detail::SaveJob{state, path, options, detail::weigh_replicas(state)}, world);
}

/// Saves a module between two steps.
template <HoldsState M>
std::string save(M& module, const std::string& path, const SaveOptions& options = {}) {
  HeldState state;
  detail::alike(module.mesh().world, "zero::save", [&] { state = module.held_state(); });
  return save(state, module.mesh().world, path, options);
}

}  // namespace zero
