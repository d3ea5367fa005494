// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// SlotPool: numbers for the slots of one space. Includes schedule/ only.
#pragma once

#include <zero/schedule/detail/scratch.hpp>
#include <zero/schedule/step.hpp>

namespace zero::detail {

/// Hands out the slot that has been free for longest, so that its last reader is likely done.
/// One pool serves all kinds of groups, but a slot stays with the kind that it was made for.
class SlotPool {
 public:
  /// Begins without slots; there will be at most `limit`.
  constexpr void reset(bool grows, std::size_t limit) {
    grows_ = grows;
    size_ = 0;
    free_.reset(limit);
    count_ = 0;
  }
  constexpr void add(Index kind) { release(size_++, kind); }
  constexpr Index reserve() { return size_++; }
  constexpr void release(Index slot, Index kind) { free_[count_++] = {slot, kind}; }
  constexpr Index acquire(Index kind) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (free_[i].kind != kind) continue;
      const Index slot = free_[i].slot;
      for (--count_; i < count_; ++i) free_[i] = free_[i + 1];
      return slot;
    }
    return grows_ ? size_++ : nowhere;
  }
  constexpr Index size() const { return size_; }

 private:
  struct Free {
    Index slot = nowhere, kind = 0;
  };
  bool grows_ = true;
  Index size_ = 0;
  Scratch<Free> free_{};
  std::size_t count_ = 0;  // of free slots, the longest free first
};

}  // namespace zero::detail
