// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// AsyncSaver: saves what was held at one instant while training goes on. May include base/, layout/
// and comm/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/rank_file.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/checkpoint/save.hpp>
#include <zero/comm/communicator.hpp>

namespace zero {

/// Copies what this rank writes of a checkpoint and saves the copy in a thread beside, as
/// zero::save does. At most one save is in flight; its error comes from the next save() or from
/// wait(), on all ranks. One object on each rank; it keeps memory for one copy.
template <Communicator Comm>
class AsyncSaver {
 public:
  /// Collective: it makes a communicator of its own.
  explicit AsyncSaver(const Comm& world) : world_(world.split(0, static_cast<int>(world.rank()))) {}
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;
  /// Waits for a save in flight; its error is lost.
  ~AsyncSaver() {
    if (thread_.joinable()) thread_.join();
  }

  /// Begins to save what is held now. Returns when that is copied, and its numbers may change.
  ///
  /// Order:   every rank calls it alike; it waits for the save before, but not for other ranks.
  /// Errors:  those of the save before.
  void save(const HeldState& state, const std::string& path, const SaveOptions& options = {}) {
    wait();
    job_ = {copy(state), path, options, detail::weigh_replicas(state)};
    thread_ = std::thread([this] {
      try {
        saved_ = detail::run(job_, world_);
      } catch (...) { error_ = std::current_exception(); }
    });
  }
  /// The same of all that a module holds.
  template <HoldsState M>
  void save(M& module, const std::string& path, const SaveOptions& options = {}) {
    save(module.held_state(), path, options);
  }
  /// Waits for a save in flight. Returns the path of the last checkpoint that was saved, empty if
  /// none was.
  ///
  /// Errors:  those of the save.
  std::string wait() {
    if (thread_.joinable()) thread_.join();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return saved_;
  }

 private:
  /// The part of a state that this rank writes, in memory of this object.
  HeldState copy(HeldState state) {
    std::size_t bytes = 0;
    for_each_range(state, [&](HeldRange& range, std::size_t size) { bytes += range.count * size; });
    memory_.resize(bytes);
    std::byte* to = memory_.data();
    for_each_range(state, [&](HeldRange& range, std::size_t size) {
      if (range.count > 0) std::memcpy(to, range.data, range.count * size);
      range.data = to;
      to += range.count * size;
    });
    return state;
  }
  /// Calls f(own part of a range, bytes of an element), and makes that part all that is held.
  template <class F>
  static void for_each_range(HeldState& state, F f) {
    for (HeldTensor& tensor : state.tensors) {
      for (HeldPart& part : tensor.parts) {
        for (HeldRange& range : part.ranges) {
          range = detail::own_part(range, part.type, part.holders, part.holder);
          f(range, size_of(part.type));
        }
        part.holders = 1;
        part.holder = 0;
      }
    }
  }

  Comm world_;
  std::vector<std::byte> memory_;
  detail::SaveJob job_;
  std::string saved_;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace zero
