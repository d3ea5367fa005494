// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Ranks do something together: what fails on one fails on all. May include base/ and comm/.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <future>
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

/// Runs f() on each rank, in a thread beside; if it throws on one, all ranks throw. f() must not
/// communicate. A disk may be slower than the time limit of a communicator: ranks that are done
/// meet those that are not, from time to time, until all are.
///
/// Errors:  CheckpointError with the text of the lowest rank that failed.
template <Communicator Comm>
void together(const Comm& world, const char* call, const std::function<void()>& f) {
  constexpr std::chrono::milliseconds patience{200};
  enum : std::uint64_t { done, failed, running };
  std::string error;
  const auto guarded = [&]() -> std::uint64_t {
    try {
      f();
      return done;
    } catch (const std::exception& caught) { error = caught.what(); } catch (...) {
      error = "an exception that is not a std::exception";
    }
    return failed;
  };
  std::future<std::uint64_t> result = std::async(std::launch::async, guarded);
  std::vector<std::uint64_t> all(world.size(), running);
  for (;;) {
    std::uint64_t mine = all[world.rank()];
    if (mine == running && result.wait_for(patience) == std::future_status::ready) {
      mine = result.get();
    }
    world.all_gather(&mine, all.data(), 1, Label{"checkpoint", {}, no_position});
    if (std::find(all.begin(), all.end(), running) == all.end()) break;
  }
  const auto first = std::find(all.begin(), all.end(), failed);
  if (first == all.end()) return;
  const auto rank = static_cast<std::size_t>(first - all.begin());
  broadcast_text(world, error, rank);
  throw CheckpointError(std::string(call) + " failed on rank " + std::to_string(rank) +
                        " (this is " + std::to_string(world.rank()) + " of " +
                        std::to_string(world.size()) + " ranks): " + error);
}

/// Runs f on the thread that calls, and tells all ranks if it failed on one of them, but for errors
/// that they all have, or can no longer tell. A collective.
///
/// Errors:  what f throws; CheckpointError on the other ranks.
template <Communicator Comm, class F>
void alike(const Comm& world, const char* call, F f) {
  std::exception_ptr error;
  try {
    f();
  } catch (const ContractError&) { throw; } catch (const CommunicatorError&) {
    throw;
  } catch (...) { error = std::current_exception(); }
  try {
    together(world, call, [&] {
      if (error) std::rethrow_exception(error);
    });
  } catch (...) {
    if (error) std::rethrow_exception(error);
    throw;
  }
}

}  // namespace zero::detail
