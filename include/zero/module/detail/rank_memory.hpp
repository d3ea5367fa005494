// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The one block of memory that a module holds, its own or the caller's. May include device/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <zero/device/memory.hpp>
#include <zero/module/buffers.hpp>
#include <zero/module/detail/schedules.hpp>
#include <zero/module/options.hpp>

namespace zero::detail {

/// Counts, obtains, fills with zeros and cuts up the memory of a module: plan, bytes, bind.
template <class Buffers>
class RankMemory {
 public:
  /// Bytes of all buffers of a rank; the same on every rank.
  static std::size_t bytes_needed(const ParameterTable& parameters, const Schedules& schedules,
                                  const ControlShape& control) {
    Arena counter;
    Buffers(counter, parameters, schedules.training(), schedules.slots(), 0, 0, control);
    return counter.used();
  }

  RankMemory(const ParameterTable& parameters, const Schedules& schedules, std::size_t rank,
             std::size_t replica, const ControlShape& control, const ModuleOptions& options)
      : bytes_(bytes_needed(parameters, schedules, control)),
        owned_(options.memory.empty()),
        block_(owned_ ? HostMemory().allocate(bytes_, memory_alignment)
                      : checked(options.memory, bytes_)),
        arena_(block_, bytes_),
        buffers_(arena_, parameters, schedules.training(), schedules.slots(), rank, replica,
                 control) {
    std::memset(block_, options.poison ? 0xFF : 0, bytes_);  // bytes of ones are NaN in every type
  }
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;
  ~RankMemory() {
    if (owned_) HostMemory().deallocate(block_, bytes_);
  }

  Buffers& buffers() { return buffers_; }
  const Buffers& buffers() const { return buffers_; }
  const Arena& arena() const { return arena_; }

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

  std::size_t bytes_;
  bool owned_;
  void* block_;
  Arena arena_;
  Buffers buffers_;
};

}  // namespace zero::detail
