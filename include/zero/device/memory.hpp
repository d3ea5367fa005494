// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Where bytes live: the Memory concept, host memory, the arena. Includes base/.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <zero/base/error.hpp>

namespace zero {

/// Every buffer of an arena begins at a multiple of this many bytes: a cache line, and the widest
/// vector register.
inline constexpr std::size_t memory_alignment = 64;

/// A source of memory.
///
///   allocate(bytes, alignment)  bytes that nobody else has; throws DeviceError, with the number of
///                               bytes in its text, when there are none
///   deallocate(pointer, bytes)  returns what allocate gave for the same number; never throws
///
/// Proved by tests/device/memory_test.cpp.
template <class M>
concept Memory = requires(M& memory, void* pointer, std::size_t bytes, std::size_t alignment) {
  { memory.allocate(bytes, alignment) } -> std::same_as<void*>;
  { memory.deallocate(pointer, bytes) }
  noexcept;
};

/// The memory of the process, aligned to memory_alignment.
class HostMemory {
 public:
  /// Aligned memory of the host.
  void* allocate(std::size_t bytes, std::size_t alignment = memory_alignment) {
    if (alignment > memory_alignment) {
      throw ContractError("HostMemory::allocate: alignment is " + std::to_string(alignment) +
                          " bytes, at most " + std::to_string(memory_alignment) +
                          " are possible; ask for less");
    }
    void* pointer = ::operator new(bytes, std::align_val_t(memory_alignment), std::nothrow);
    if (pointer == nullptr) {
      throw DeviceError("HostMemory::allocate: no memory for " + std::to_string(bytes) +
                        " bytes; use more ranks, a stage that shards more, or a smaller model");
    }
    return pointer;
  }

  /// Gives it back.
  void deallocate(void* pointer, std::size_t) noexcept {
    ::operator delete(pointer, std::align_val_t(memory_alignment));
  }
};

static_assert(Memory<HostMemory>);

namespace detail {

/// A block of memory that is returned at the end of its life.
template <Memory M>
class Block {
 public:
  Block(M memory, std::size_t bytes)
      : memory_(memory), data_(memory_.allocate(bytes, memory_alignment)), bytes_(bytes) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { memory_.deallocate(data_, bytes_); }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }

 private:
  M memory_;
  void* data_;
  std::size_t bytes_;
};

}  // namespace detail

/// What the bytes of a rank are for.
enum class MemoryKind : std::uint8_t { weights, gradients, optimizer, slots, staging, control };
inline constexpr std::size_t memory_kinds = 6;  // how many kinds there are

/// The name of a kind, as reports say it.
constexpr const char* name_of(MemoryKind kind) {
  constexpr const char* names[] = {"weights", "gradients", "optimizer",
                                   "slots",   "staging",   "control"};
  return names[static_cast<std::size_t>(kind)];
}

/// One block of memory that buffers are taken from, in order, never to be returned.
///
/// An arena without memory only counts: the code that takes buffers runs once to learn how many
/// bytes it needs, and once more over a block of that size, which the caller owns.
class Arena {
 public:
  /// Only counts.
  Arena() : Arena(nullptr, 0) {}

  /// Pre: `base` is aligned to memory_alignment. With `base` null it only counts.
  Arena(void* base, std::size_t bytes)
      : base_(static_cast<std::byte*>(base)), capacity_(base == nullptr ? unlimited : bytes) {
    if (reinterpret_cast<std::uintptr_t>(base) % memory_alignment != 0) {
      throw ContractError("Arena: the block must be aligned to " +
                          std::to_string(memory_alignment) +
                          " bytes; pass what HostMemory or the plan's allocator gave");
    }
  }

  /// A buffer of `count` elements, not initialised. Its data are null without memory, or if it is
  /// empty.
  ///
  /// Errors:  ContractError if the block is too small for it.
  template <class T>
  std::span<T> take(MemoryKind kind, std::size_t count) {
    static_assert(
        std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
        "Arena::take: the elements must be trivially copyable, since nobody constructs or "
        "destroys them");
    static_assert(alignof(T) <= memory_alignment);
    if (count == 0) return {};
    const std::size_t gap = (memory_alignment - used_ % memory_alignment) % memory_alignment;
    const std::size_t left = capacity_ - used_;
    if (left < gap || count > (left - gap) / sizeof(T)) {
      throw ContractError("Arena::take: " + std::to_string(count) + " elements of " +
                          std::to_string(sizeof(T)) + " bytes for " + name_of(kind) +
                          " do not fit into " + std::to_string(capacity_) + " bytes, of which " +
                          std::to_string(used_) + " are taken; ask the plan for the size");
    }
    T* data = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_ + gap);
    gaps_ += gap;
    used_ += gap + count * sizeof(T);
    used_by_[static_cast<std::size_t>(kind)] += count * sizeof(T);
    return std::span<T>(data, count);
  }

  /// Whether there is no memory, and only sizes are added up.
  bool only_counts() const { return base_ == nullptr; }
  /// Bytes of the block.
  std::size_t capacity() const { return capacity_; }
  /// Bytes taken so far with the gaps between buffers: the size of block that would do.
  std::size_t used() const { return used_; }
  /// Bytes of the buffers of one kind, without gaps. All kinds and gaps() add up to used().
  std::size_t used(MemoryKind kind) const { return used_by_[static_cast<std::size_t>(kind)]; }
  /// Bytes lost to alignment.
  std::size_t gaps() const { return gaps_; }

 private:
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  std::byte* base_;
  std::size_t capacity_;
  std::size_t used_ = 0;
  std::size_t gaps_ = 0;
  std::array<std::size_t, memory_kinds> used_by_{};
};

}  // namespace zero
