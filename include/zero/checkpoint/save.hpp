// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// save: writes what all ranks hold as one checkpoint, which exists whole or not at all. May include
// base/, layout/ and comm/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
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
  /// Another file system than the machine's; it must live during the call.
  Files* files = nullptr;
};

namespace detail {

/// Ranks that should hold the same must hold the same bits; `shared` is a digest of what all have
/// in common. A collective.
template <Communicator Comm>
void compare_replicas(const HeldState& state, std::uint64_t shared, const Comm& world) {
  // The first holder's digest times the others' number, less the digests of the others: zero, but
  // for chance, if all are equal.
  const auto weighed = [](std::uint64_t digest, std::size_t holders, std::size_t holder) {
    return holder == 0 ? digest * (holders - 1) : 0 - digest;
  };
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
  sums.push_back(weighed(shared, world.size(), world.rank()));
  world.all_reduce(sums.data(), sums.size(), Label{"compare replicas", {}, no_position});
  if (sums.back() != 0) {
    throw CheckpointError(
        "zero::save: the ranks have different tensors, counters, scalars or user texts; nothing "
        "was written. Pass the same on all ranks (this is rank " +
        std::to_string(world.rank()) + ")");
  }
  std::size_t at = 0;
  for (const HeldTensor& tensor : state.tensors) {
    for (const HeldPart& part : tensor.parts) {
      if (sums[at++] == 0) continue;
      throw CheckpointError("zero::save: tensor " + quoted(tensor.name) + " (" + part.name +
                            ") differs between the " + std::to_string(part.holders) +
                            " ranks that should hold the same; nothing was written. Load a "
                            "checkpoint, or find what changed one of them");
    }
  }
}

/// The manifest without its files.
inline Manifest describe(const HeldState& state, const SaveOptions& options) {
  Manifest manifest;
  if (!Manifest::is_chunk(options.chunk_bytes)) {
    throw ContractError("zero::save: chunk_bytes must be a power of two from " +
                        std::to_string(Manifest::least_chunk) + " to " +
                        std::to_string(Manifest::largest_chunk) + ", but is " +
                        std::to_string(options.chunk_bytes));
  }
  manifest.step = state.step;
  manifest.chunk_bytes = options.chunk_bytes;
  manifest.scalars = state.scalars;
  manifest.user = options.user;
  for (const HeldTensor& tensor : state.tensors) {
    manifest.tensors.push_back({tensor.name, tensor.shape, tensor.counter});
    for (const HeldPart& part : tensor.parts) {
      manifest.tensors.back().parts.push_back({part.name, part.type});
    }
  }
  return manifest;
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
  const std::string name =
      options.name.empty() ? detail::Store::numbered_name(state.step) : options.name;
  detail::Store store(options.files == nullptr ? disk_files() : *options.files, path);
  Manifest manifest;
  std::uint64_t shared = 0;
  const bool first = world.rank() == 0;
  detail::together(world, "zero::save", [&] {
    detail::Store::check_name(name);
    manifest = detail::describe(state, options);
    const std::string text = detail::write_manifest(manifest);
    shared = detail::quick_digest(text.data(), text.size(), 0);
  });
  detail::compare_replicas(state, shared, world);
  bool committing = false;
  try {
    detail::together(world, "zero::save", [&] {
      if (first) store.begin(name);
    });
    Manifest::File own;
    detail::together(world, "zero::save", [&] {
      own = detail::write_rank_file(store.files(), store.temporary(name), world.rank(), state,
                                    manifest);
    });
    std::string record;
    for (std::size_t rank = 0; rank < world.size(); ++rank) {
      if (rank == world.rank()) record = detail::write_file_record(own);
      detail::broadcast_text(world, record, rank);
      if (!first) continue;
      Manifest::File file = detail::read_file_record(record);
      if (!file.pieces.empty()) manifest.files.push_back(std::move(file));
    }
    detail::together(world, "zero::save", [&] {
      if (!first) return;
      const std::string file = store.temporary(name) + '/' + Manifest::file_name;
      manifest.check(file);
      detail::write_text(store.files(), file, detail::write_manifest(manifest));
      committing = true;
      store.commit(name);
    });
  } catch (...) {
    // Once the names are exchanged, the earlier checkpoint may lie there.
    if (first && !committing) store.give_up(name);
    throw;
  }
  detail::together(world, "zero::save (the checkpoint is complete; what follows it)", [&] {
    if (!first) return;
    store.point_latest(name);
    store.retain(name, options.keep);
  });
  return store.in(name);
}

/// Saves a module between two steps.
template <HoldsState M>
std::string save(M& module, const std::string& path, const SaveOptions& options = {}) {
  return save(module.held_state(), module.mesh().world, path, options);
}

}  // namespace zero
