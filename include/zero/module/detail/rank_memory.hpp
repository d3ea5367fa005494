// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The one block of memory that a module holds, its own or the caller's. May include device/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <zero/device/memory.hpp>
#include <zero/module/buffers.hpp>
#include <zero/module/control.hpp>
#include <zero/module/detail/schedules.hpp>
#include <zero/module/options.hpp>

namespace zero::detail {

/// Bytes of all buffers of a rank; the same on every rank.
template <class Buffers>
std::size_t rank_bytes(const ParameterTable& parameters, const Schedules& schedules,
                       const ControlShape& control) {
  Arena counter;
  Buffers(counter, parameters, schedules.training(), schedules.slots(), 0, 0, control);
  return counter.used();
}

/// Counts, obtains and cuts up the memory of a module: plan, bytes, bind. Beside it lies what the
/// host stages for the device.
template <class Buffers, class Memory, class Staged>
class RankMemory {
 public:
  RankMemory(const ParameterTable& parameters, const Schedules& schedules, std::size_t rank,
             std::size_t replica, const ControlShape& control, const ModuleOptions& options)
      : bytes_(rank_bytes<Buffers>(parameters, schedules, control)),
        staged_(Control::mirrored_bytes(control)),
        arena_(obtain(options.memory), bytes_),
        buffers_(arena_, parameters, schedules.training(), schedules.slots(), rank, replica,
                 control) {}

  Buffers& buffers() { return buffers_; }
  const Buffers& buffers() const { return buffers_; }
  const Arena& arena() const { return arena_; }
  void* block() const { return block_; }
  /// For the host's copy of Control.
  std::span<std::byte> staged() const { return staged_.bytes(); }

 private:
  void* obtain(std::span<std::byte> given) {
    if (given.empty()) own_.emplace(Memory(), bytes_);
    return block_ = given.empty() ? own_->data() : checked(given, bytes_);
  }
  static void* checked(std::span<std::byte> given, std::size_t bytes) {
    if (reinterpret_cast<std::uintptr_t>(given.data()) % memory_alignment != 0) {
      throw ContractError("zero::ModuleOptions: memory must begin at a multiple of " +
                          std::to_string(memory_alignment) + " bytes, but does not; align it");
    }
    if (given.size() < bytes) {
      throw ContractError("zero::ModuleOptions: memory must hold " + std::to_string(bytes) +
                          " bytes, but " + std::to_string(given.size()) +
                          " were given; ask zero::bytes_needed");
    }
    return given.data();
  }

  std::size_t bytes_;
  std::optional<Block<Memory>> own_;  // unless the caller's is used
  void* block_ = nullptr;
  Staged staged_;
  Arena arena_;
  Buffers buffers_;
};

}  // namespace zero::detail
