// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Where the offloaded optimizer state of each group lies. May include base/, schedule/ and module/.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <zero/base/list.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero::detail {

/// The master and the states of a group that this rank updates, one behind the other: alike where
/// they are kept and in a slot. Every region begins and ends where disks take data without a copy.
class StateRegions {
 public:
  static constexpr std::size_t alignment = 4096, between = 64;
  struct Region {
    std::uint64_t begin = 0;  // where it is kept
    std::size_t bytes = 0;    // 0 where nothing is trained
    std::size_t part = 0;     // elements that this rank updates
    std::size_t parts = 0;    // parts of the group's layout among them
  };

  /// Of an optimizer with so many states.
  StateRegions(const ParameterTable& parameters, std::size_t states, const StageTraits& traits) {
    for (const GroupInfo& group : parameters.groups()) {
      Region made{.begin = total_};
      if (!group.frozen) {
        made.part = traits.shards_optimizer ? group.layout.shard() : group.layout.padded();
        made.parts = made.part / std::max<std::size_t>(group.layout.shard(), 1);
        std::size_t bytes = round_up(master_bytes(group, made.part), between);
        for (std::size_t k = 0; k < states; ++k) {
          bytes += round_up(state_numbers(group, made, k) * size_of(group.types.moments), between);
        }
        made.bytes = round_up(bytes, alignment);
      }
      total_ += made.bytes;
      largest_ = std::max(largest_, made.bytes);
      regions_.push_back(made);
    }
  }
  const Region& operator[](std::size_t g) const { return regions_[g]; }
  /// Bytes of all of them, and of the largest.
  std::uint64_t total() const { return total_; }
  std::size_t largest() const { return largest_; }
  /// Bytes of so many slots, with what it takes for the first one to be aligned.
  std::size_t slot_bytes(std::size_t slots) const {
    return slots * largest_ == 0 ? 0 : slots * largest_ + alignment - between;
  }

  static std::size_t master_bytes(const GroupInfo& group, std::size_t part) {
    return group.types.has_master() ? part * sizeof(float) : 0;
  }
  static std::size_t state_numbers(const GroupInfo& group, const Region& region, std::size_t k) {
    return region.parts * group.states.shard(group.layout, k);
  }
  static std::size_t round_up(std::size_t bytes, std::size_t multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
  }

 private:
  List<Region> regions_;  // [group]
  std::uint64_t total_ = 0;
  std::size_t largest_ = 0;
};

}  // namespace zero::detail
