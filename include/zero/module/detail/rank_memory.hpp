// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The one block of memory that a module holds, its own or the caller's. May include device/.
#pragma once
#include <cstddef>
#include <cstdint>
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

/// A block of memory that is returned in the end, unless it is the caller's.
template <class Memory>
class RankBlock {
 public:
  RankBlock(std::size_t bytes, std::span<std::byte> given)
      : bytes_(bytes),
        owned_(given.empty()),
        data_(owned_ ? memory_.allocate(bytes, memory_alignment) : checked(given, bytes)) {}
  RankBlock(const RankBlock&) = delete;
  RankBlock& operator=(const RankBlock&) = delete;
  ~RankBlock() {
    if (owned_) memory_.deallocate(data_, bytes_);
  }
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
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

  Memory memory_;
  std::size_t bytes_;
  bool owned_;
  void* data_;
};

/// Counts, obtains and cuts up the memory of a module: plan, bytes, bind. Beside it lies what the
/// host stages for the device.
template <class Buffers, class Memory, class Staged>
class RankMemory {
 public:
  RankMemory(const ParameterTable& parameters, const Schedules& schedules, std::size_t rank,
             std::size_t replica, const ControlShape& control, const ModuleOptions& options)
      : block_(rank_bytes<Buffers>(parameters, schedules, control), options.memory),
        staged_(Control::mirrored_bytes(control)),
        arena_(block_.data(), block_.bytes()),
        buffers_(arena_, parameters, schedules.training(), schedules.slots(), rank, replica,
                 control) {}

  Buffers& buffers() { return buffers_; }
  const Buffers& buffers() const { return buffers_; }
  const Arena& arena() const { return arena_; }
  void* block() const { return block_.data(); }
  /// For the host's copy of Control.
  std::span<std::byte> staged() const { return staged_.bytes(); }

 private:
  RankBlock<Memory> block_;
  Staged staged_;
  Arena arena_;
  Buffers buffers_;
};

}  // namespace zero::detail
