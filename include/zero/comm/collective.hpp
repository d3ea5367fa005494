// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The words that every communicator's collectives use. Includes the standard library only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zero {

/// What ranks do together.
enum class Collective : std::uint8_t {
  all_gather,
  reduce_scatter,
  all_reduce,
  broadcast,
  barrier,
  split
};

/// The name of a collective, as errors say it.
constexpr const char* name_of(Collective collective) {
  constexpr const char* names[] = {"all_gather", "reduce_scatter", "all_reduce",
                                   "broadcast",  "barrier",        "split"};
  return names[static_cast<std::size_t>(collective)];
}

/// What a reduction adds to `out`: nothing (it overwrites), or the old value of `out`.
enum class Accumulate : std::uint8_t { no, yes };

/// How the elements of all ranks become one: their sum, or their sum divided by the number of
/// ranks. Both are formed in rank order, in fp32 for bf16 and fp16, and rounded once at the end
/// (NCCL has its own ways, see NcclCommunicator). The average of u64 is rounded down. One rank is
/// no special case.
enum class Reduction : std::uint8_t { sum, average };

/// Stands for a position or a micro-step that is not known.
inline constexpr std::uint32_t no_position = 0xFFFFFFFF;

/// Who asks for a collective: named in every error; unit and position are compared across ranks.
/// The text must live until the collective is done.
struct Label {
  const char* operation = nullptr;  ///< the caller's own word, if it differs from the collective's
  std::string_view unit = {};       // the unit that it is for
  std::uint32_t position = no_position;    ///< in the schedule
  std::uint32_t micro_step = no_position;  // in which micro-step
};

/// Bytes that this rank sent to other ranks, counted where they are copied.
struct Traffic {
  std::uint64_t all_gather = 0;      // by all_gather
  std::uint64_t reduce_scatter = 0;  // by reduce_scatter
  std::uint64_t all_reduce = 0;      // by all_reduce
  std::uint64_t broadcast = 0;       // by broadcast

  /// By all of them.
  constexpr std::uint64_t total() const {
    return all_gather + reduce_scatter + all_reduce + broadcast;
  }
  friend constexpr bool operator==(const Traffic&, const Traffic&) = default;
};

}  // namespace zero
