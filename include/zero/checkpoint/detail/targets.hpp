// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Targets: where in a rank's memory the elements of one stored tensor belong. May include base/ and
// layout/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>
#include <zero/checkpoint/held_state.hpp>
#include <zero/checkpoint/stored_type.hpp>

namespace zero::detail {

class Targets {
 public:
  using Interval = std::pair<std::uint64_t, std::uint64_t>;  // elements [first, second)

  /// Adds all that a part holds, in both types if there are two.
  void add(const HeldPart& part) {
    for (const HeldRange& range : part.ranges) targets_.push_back({range, part.type});
    for (const HeldRange& range : part.copies) targets_.push_back({range, part.copy_type});
  }
  bool meet(std::uint64_t begin, std::uint64_t end) const {
    return std::any_of(targets_.begin(), targets_.end(), [&](const Target& target) {
      return target.range.begin < end && begin < target.range.begin + target.range.count;
    });
  }
  /// Which elements are wanted: in order, apart from each other, none empty.
  std::vector<Interval> intervals() const {
    std::vector<Interval> all, made;
    for (const Target& target : targets_) {
      const HeldRange& range = target.range;
      if (range.count > 0) all.emplace_back(range.begin, range.begin + range.count);
    }
    std::sort(all.begin(), all.end());
    for (const Interval& next : all) {
      if (made.empty() || next.first > made.back().second) {
        made.push_back(next);
      } else {
        made.back().second = std::max(made.back().second, next.second);
      }
    }
    return made;
  }
  /// Copies elements [begin, end), which lie at `from`, to where they are wanted.
  void put(DataType type, const std::byte* from, std::uint64_t begin, std::uint64_t end) const {
    for (const Target& target : targets_) {
      const HeldRange& range = target.range;
      const std::uint64_t first = std::max(begin, range.begin);
      const std::uint64_t last = std::min(end, range.begin + range.count);
      if (first >= last) continue;
      convert(type, from + (first - begin) * size_of(type), target.type,
              static_cast<std::byte*>(range.data) + (first - range.begin) * size_of(target.type),
              last - first);
    }
  }

 private:
  struct Target {
    HeldRange range;
    DataType type;
  };
  std::vector<Target> targets_;
};

}  // namespace zero::detail
