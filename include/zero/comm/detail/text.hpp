// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What errors of collectives say. Includes comm/detail/history.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <zero/comm/detail/history.hpp>

namespace zero::detail {

inline constexpr const char* why_left =
    " left the communicator: its function returned, or its communicator was destroyed. Every rank "
    "must issue the same collectives.";
inline constexpr const char* why_late =
    ". Look for what it does instead, or give ranks more time (time_limit).";
inline constexpr const char* why_no_turn =
    ": an earlier collective of this rank, issued on a stream, has not run. Synchronise that "
    "stream first.";
inline constexpr const char* why_dropped =
    " was dropped before it was done. Let streams finish their work before they are destroyed.";

/// "all_gather(4 x fp32) of unit block.3 at schedule position 17".
inline std::string text_of(const Call& call) {
  std::string text = name_of(call.collective);
  if (call.collective != Collective::barrier && call.collective != Collective::split) {
    text += "(" + std::to_string(call.count) + " x " + name_of(call.type);
    if (call.reduction == Reduction::average) text += ", average";
    if (call.collective == Collective::broadcast) text += ", root " + std::to_string(call.root);
    text += ")";
  }
  if (call.operation != nullptr) text.append(" for ").append(call.operation);
  if (!call.unit.empty()) text.append(" of unit ").append(call.unit);
  if (call.position != no_position) {
    text += " at schedule position " + std::to_string(call.position);
  }
  if (call.micro_step != no_position) {
    text += " in micro-step " + std::to_string(call.micro_step);
  }
  return text;
}

/// What each rank did last, a line for each.
template <class World>
std::string text_of_histories(const World& world) {
  const std::size_t ranks = std::min<std::size_t>(world.ranks(), 64);
  std::string text = "\nLast operations, the latest at the end:";
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    text += "\n  rank " + std::to_string(rank) + ": " +
            world.history(rank).text(ranks <= 8 ? History::length : 2);
  }
  return text;
}

/// "rank 3" or "ranks 0, 2": those of `ranks` that are chosen.
template <class Chosen>
std::string text_of_ranks(std::size_t ranks, const Chosen& chosen) {
  std::string text;
  std::size_t count = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (!chosen(rank)) continue;
    text += (count++ == 0 ? "" : ", ") + std::to_string(rank);
  }
  return (count == 1 ? "rank " : "ranks ") + text;
}

/// Whether the ranks have published different calls. All of them see the same answer.
template <class Group>
bool disagree(const Group& group) {
  for (std::size_t rank = 1; rank < group.size(); ++rank) {
    if (!group.call(rank).agrees(group.call(0))) return true;
  }
  return false;
}

/// Names each of the calls and who made it.
template <class Group>
std::string text_of_disagreement(const Group& group) {
  std::string text = "the ranks called different collectives";
  for (std::size_t rank = 0; rank < group.size(); ++rank) {
    const Call& call = group.call(rank);
    const auto same = [&](std::size_t other) { return group.call(other).agrees(call); };
    bool first = true;
    for (std::size_t other = 0; other < rank; ++other) first = first && !same(other);
    if (!first) continue;
    text += (rank == 0 ? ": " : "; ") + text_of_ranks(group.size(), same) + " " + text_of(call);
  }
  return text + ". Every rank must issue the same collectives in the same order.";
}

}  // namespace zero::detail
