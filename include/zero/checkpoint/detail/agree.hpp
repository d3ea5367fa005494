// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Ranks do something together: what fails on one fails on all. May include base/ and comm/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/comm/communicator.hpp>

namespace zero::detail {

/// Gives all ranks the text of rank `root`. A collective.
template <Communicator Comm>
void broadcast_text(const Comm& world, std::string& text, std::size_t root) {
  const Label label{"checkpoint", {}, no_position};
  std::uint64_t bytes = text.size();
  world.broadcast(&bytes, 1, root, label);
  std::vector<std::uint64_t> words((bytes + 7) / 8);
  if (world.rank() == root && bytes > 0) std::memcpy(words.data(), text.data(), bytes);
  if (bytes > 0) world.broadcast(words.data(), words.size(), root, label);
  text.resize(bytes);
  if (bytes > 0) std::memcpy(text.data(), words.data(), bytes);
}

/// Runs f() on each rank; if it throws on one, all ranks throw. f() must not communicate.
///
/// Errors:  CheckpointError with the text of the lowest rank that failed.
template <Communicator Comm, class F>
void together(const Comm& world, const char* call, F f) {
  std::string error;
  bool failed = false;
  try {
    f();
  } catch (const std::exception& caught) {
    failed = true;
    error = caught.what();
  }
  const std::uint64_t mine = failed ? 1 : 0;
  std::vector<std::uint64_t> all(world.size());
  world.all_gather(&mine, all.data(), 1, Label{"checkpoint", {}, no_position});
  const auto first = std::find(all.begin(), all.end(), std::uint64_t{1});
  if (first == all.end()) return;
  const auto rank = static_cast<std::size_t>(first - all.begin());
  broadcast_text(world, error, rank);
  throw CheckpointError(std::string(call) + " failed on rank " + std::to_string(rank) +
                        " (this is " + std::to_string(world.rank()) + " of " +
                        std::to_string(world.size()) + " ranks): " + error);
}

}  // namespace zero::detail
