// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What lanes of a warp do together: shuffles, votes, reductions.
#include <algorithm>
#include <bit>

#include "ptx_format.hpp"

namespace emulator::ptx {

namespace {

enum Shuffle : std::uint8_t { up, down, butterfly, index };

/// Where a lane takes its value from, and whether that lies in its segment.
struct Source {
  unsigned lane;
  bool inside;
};
Source source(unsigned kind, unsigned lane, unsigned by, unsigned bounds) {
  const unsigned segment = bounds >> 8 & 31, clamp = bounds & 31;
  const unsigned first = lane & segment;
  const unsigned last = first | (clamp & ~segment);
  const int at = static_cast<int>(lane), distance = static_cast<int>(by & 31);
  int from = 0;
  bool inside = false;
  switch (kind) {
    case up:
      from = at - distance;
      inside = from >= static_cast<int>(last);
      break;
    case down:
      from = at + distance;
      inside = from <= static_cast<int>(last);
      break;
    case butterfly:
      from = at ^ distance;
      inside = from <= static_cast<int>(last);
      break;
    default:
      from = static_cast<int>(first | (by & 31 & ~segment));
      inside = from <= static_cast<int>(last);
  }
  return {inside ? static_cast<unsigned>(from) : lane, inside};
}
void shuffle(Warp& warp, const Instruction& i, Mask mask) {
  std::uint64_t values[warp_size];
  std::copy_n(warp.row(i.from[0]), warp_size, values);
  const std::uint64_t *const by = warp.row(i.from[1]), *const bounds = warp.row(i.from[2]);
  std::uint64_t* const to = warp.row(i.to[0]);
  Mask inside = 0;
  for_lanes(mask, [&](unsigned k) {
    const Source from =
        source(i.option, k, static_cast<unsigned>(by[k]), static_cast<unsigned>(bounds[k]));
    // From a lane that takes no part comes nothing of use.
    to[k] = (mask >> from.lane & 1) != 0 ? U32::put(values[from.lane]) : 0xFFFFFFFFU;
    inside |= Mask{from.inside} << k;
  });
  if (i.results == 2) set_predicate(warp, i.to[1], mask, inside);
}

enum Vote : std::uint8_t { all, any, uniform, ballot };
void vote(Warp& warp, const Instruction& i, Mask mask) {
  const Mask yes = holds(warp, i, 0) & mask;
  if (i.option == ballot) {
    std::uint64_t* const to = warp.row(i.to[0]);
    for_lanes(mask, [=](unsigned k) { to[k] = yes; });
    return;
  }
  const bool result = i.option == all   ? yes == mask
                      : i.option == any ? yes != 0
                                        : yes == 0 || yes == mask;
  set_predicate(warp, i.to[0], mask, result ? mask : 0);
}
void active_mask(Warp& warp, const Instruction& i, Mask mask) {
  std::uint64_t* const to = warp.row(i.to[0]);
  for_lanes(mask, [=](unsigned k) { to[k] = mask; });
}
/// match: which lanes have the same value; with `all`, none unless all have.
template <class Format>
void match(Warp& warp, const Instruction& i, Mask mask) {
  std::uint64_t* const to = warp.row(i.to[0]);
  const std::uint64_t* const from = warp.row(i.from[0]);
  Mask same_for_all = 0;
  for_lanes(mask, [&](unsigned k) {
    Mask same = 0;
    for_lanes(mask, [&](unsigned other) {
      same |= Mask{Format::get(from[k]) == Format::get(from[other])} << other;
    });
    if (same == mask) same_for_all |= Mask{1} << k;
    to[k] = i.option != 0 && same != mask ? 0 : same;
  });
  if (i.results == 2) set_predicate(warp, i.to[1], mask, same_for_all);
}

enum Reduction : std::uint8_t { sum, least, most, conjunction, disjunction, parity };
template <class Format>
void reduce(Warp& warp, const Instruction& i, Mask mask) {
  using Value = typename Format::Value;
  const std::uint64_t* const from = warp.row(i.from[0]);
  bool is_first = true;
  Value all_of = 0;
  for_lanes(mask, [&](unsigned k) {
    const Value value = Format::get(from[k]);
    switch (is_first ? 255U : i.option) {
      case sum: all_of += value; break;
      case least: all_of = std::min(all_of, value); break;
      case most: all_of = std::max(all_of, value); break;
      case conjunction: all_of &= value; break;
      case disjunction: all_of |= value; break;
      case parity: all_of ^= value; break;
      default: all_of = value;
    }
    is_first = false;
  });
  std::uint64_t* const to = warp.row(i.to[0]);
  for_lanes(mask, [&](unsigned k) { to[k] = Format::put(all_of); });
}
void elect(Warp& warp, const Instruction& i, Mask mask) {
  const auto leader = static_cast<unsigned>(std::countr_zero(mask));
  std::uint64_t* const to = warp.row(i.to[0]);
  for_lanes(mask, [=](unsigned k) { to[k] = leader; });
  if (i.results == 2) set_predicate(warp, i.to[1], mask, Mask{1} << leader);
}
void nothing(Warp&, const Instruction&, Mask) {}

/// Which of the words is among the modifiers.
std::uint8_t choice(const Opcode& opcode, std::initializer_list<const char*> words) {
  std::uint8_t k = 0;
  for (const char* const word : words) {
    if (opcode.has(word)) return k;
    ++k;
  }
  return k;
}

}  // namespace

Handler warp_wide(const Opcode& opcode, Instruction& instruction) {
  const std::string& name = opcode.name;
  if (name == "activemask") return active_mask;
  instruction.flow = Instruction::Flow::together;
  if (name == "bar" && opcode.has("warp")) return nothing;
  if (name == "elect") return elect;
  if (name == "shfl" && opcode.has("sync")) {
    instruction.option = choice(opcode, {"up", "down", "bfly", "idx"});
    return shuffle;
  }
  if (name == "vote" && opcode.has("sync")) {
    instruction.option = choice(opcode, {"all", "any", "uni", "ballot"});
    return vote;
  }
  if (name == "match") {
    instruction.option = opcode.has("all") ? 1 : 0;
    return opcode.type() == Type::u64 ? match<U64> : match<U32>;
  }
  if (name == "redux") {
    instruction.option = choice(opcode, {"add", "min", "max", "and", "or", "xor"});
    return opcode.type() == Type::s32 ? reduce<S32> : reduce<U32>;
  }
  instruction.flow = Instruction::Flow::on;
  return nullptr;
}

}  // namespace emulator::ptx
