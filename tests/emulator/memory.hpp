// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Allocations and what may be accessed. Private to the emulator.
#pragma once

#include "state.hpp"

namespace emulator {

enum class MemoryKind { device, pinned };

struct Allocation {
  char* begin;
  std::size_t bytes;
  int device;
  MemoryKind kind;
  char* mapping;  ///< Whole pages around it, the last of which nobody may touch.
  std::size_t mapped;
};

/// Fresh memory, every byte of it 0xff (NaN in every floating-point type) unless `poison` is false.
/// Errors: CudaFailure{cudaErrorMemoryAllocation} at the device's limit.
char* allocate(Lock&, std::size_t bytes, int device, MemoryKind kind, std::size_t alignment = 256,
               bool poison = true);
/// Writes 0xff over memory so that a use of it shows.
void poison_memory(char* begin, std::size_t bytes);
/// Takes the allocation that begins at `pointer` off the books. Errors: CudaFailure after a report.
Allocation forget_allocation(Lock&, const void* pointer, MemoryKind kind);
/// Checks that nothing was written around it, and gives the memory back. The lock is not held.
void release_memory(const Allocation& allocation);
/// Takes `allocation` off memory_in_use().
void count_as_freed(Lock&, const Allocation& allocation);
/// Frees what nothing is enqueued for any more, as it waits for all work of the device.
void free_after_all_work(Lock&, void* pointer, MemoryKind kind);

/// The allocation that holds the byte, or null.
const Allocation* find_allocation(Lock&, const void* pointer);
/// What is wrong with an access, empty if nothing: memory that is no allocation's is the host's.
std::string wrong_access(Lock&, const void* pointer, std::size_t bytes);
/// As wrong_access, of a range that must lie in an allocation.
std::string wrong_device_access(Lock&, const void* pointer, std::size_t bytes);
/// Throws WorkFailure if the access is wrong. The lock is not held.
void check_access(const void* pointer, std::size_t bytes, bool must_be_allocated);

/// valid_access() on this thread is about this device from now on.
void set_working_device(int device);

struct MemoryCounts {
  std::size_t device;
  std::size_t pinned;
};
MemoryCounts count_allocations(Lock&);

}  // namespace emulator
