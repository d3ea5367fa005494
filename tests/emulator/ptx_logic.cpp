// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Bits, moves and choices.
#include <bit>

#include "ptx_format.hpp"

namespace emulator::ptx {

namespace {

struct And {
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a & b; }
};
struct Or {
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a | b; }
};
struct Xor {
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a ^ b; }
};
struct Not {
  std::uint64_t operator()(std::uint64_t a) const { return ~a; }
};

/// Shifts take their distance from 32 bits, and by more than there are bits all of them away.
template <class In, class Out, class>
struct ShiftLeft {
  static void run(Warp& warp, const Instruction& i, Mask mask) {
    std::uint64_t* const to = warp.row(i.to[0]);
    const std::uint64_t *const a = warp.row(i.from[0]), *const b = warp.row(i.from[1]);
    for_lanes(mask, [=](unsigned k) {
      const auto distance = static_cast<std::uint32_t>(b[k]);
      const auto value = static_cast<std::uint64_t>(In::get(a[k]));
      to[k] =
          distance >= In::bits ? 0 : Out::put(static_cast<typename Out::Value>(value << distance));
    });
  }
};
template <class In, class Out, class>
struct ShiftRight {
  static void run(Warp& warp, const Instruction& i, Mask mask) {
    std::uint64_t* const to = warp.row(i.to[0]);
    const std::uint64_t *const a = warp.row(i.from[0]), *const b = warp.row(i.from[1]);
    for_lanes(mask, [=](unsigned k) {
      const auto distance = static_cast<std::uint32_t>(b[k]);
      const typename In::Value value = In::get(a[k]);
      if (distance < In::bits) {
        to[k] = Out::put(value >> distance);
      } else {
        to[k] = Out::put(value >> (In::bits - 1) >> (std::is_signed_v<decltype(value)> ? 0 : 1));
      }
    });
  }
};

struct Population {
  std::uint64_t operator()(std::uint64_t a) const {
    return static_cast<std::uint64_t>(std::popcount(a));
  }
};
template <unsigned bits>
struct LeadingZeros {
  std::uint64_t operator()(std::uint64_t a) const {
    return static_cast<std::uint64_t>(std::countl_zero(a)) - (64 - bits);
  }
};
template <unsigned bits>
struct Reverse {
  std::uint64_t operator()(std::uint64_t a) const {
    std::uint64_t made = 0;
    for (unsigned k = 0; k < bits; ++k) made |= (a >> k & 1) << (bits - 1 - k);
    return made;
  }
};
/// The number of the highest bit that differs from the sign; all ones if none does.
struct HighestBit {
  template <class T>
  std::uint64_t operator()(T a) const {
    const auto bits = static_cast<std::uint64_t>(std::is_signed_v<T> && a < 0 ? ~a : a);
    return bits == 0 ? ~std::uint64_t{0} : 63 - static_cast<std::uint64_t>(std::countl_zero(bits));
  }
};

/// shf: 32 bits out of 64, of which the first operand has the lower half.
void funnel(Warp& warp, const Instruction& i, Mask mask) {
  std::uint64_t* const to = warp.row(i.to[0]);
  const std::uint64_t *const a = warp.row(i.from[0]), *const b = warp.row(i.from[1]),
                             *const c = warp.row(i.from[2]);
  const bool left = (i.option & 1) != 0, wraps = (i.option & 2) != 0;
  for_lanes(mask, [=](unsigned k) {
    const std::uint64_t both = U32::get(b[k]) << 32 | U32::get(a[k]);
    const auto asked = static_cast<std::uint32_t>(c[k]);
    const std::uint32_t distance = wraps ? asked % 32 : asked < 32 ? asked : 32;
    to[k] = U32::put(left ? both << distance >> 32 : both >> distance);
  });
}
/// lop3: any function of three bits; the last operand is its table.
void three_way(Warp& warp, const Instruction& i, Mask mask) {
  std::uint64_t* const to = warp.row(i.to[0]);
  const std::uint64_t *const a = warp.row(i.from[0]), *const b = warp.row(i.from[1]),
                             *const c = warp.row(i.from[2]), *const table = warp.row(i.from[3]);
  for_lanes(mask, [=](unsigned k) {
    std::uint64_t made = 0;
    for (unsigned bits = 0; bits < 8; ++bits) {
      if ((table[k] >> bits & 1) == 0) continue;
      made |= ((bits & 4) != 0 ? a[k] : ~a[k]) & ((bits & 2) != 0 ? b[k] : ~b[k]) &
              ((bits & 1) != 0 ? c[k] : ~c[k]);
    }
    to[k] = U32::put(made);
  });
}
constexpr std::uint64_t ones(std::uint64_t count) {
  return count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}
/// bfe: a field of an integer, extended by its highest bit if that is signed.
template <class In, class Out, class>
struct Extract {
  static void run(Warp& warp, const Instruction& i, Mask mask) {
    std::uint64_t* const to = warp.row(i.to[0]);
    const std::uint64_t *const a = warp.row(i.from[0]), *const b = warp.row(i.from[1]),
                               *const c = warp.row(i.from[2]);
    for_lanes(mask, [=](unsigned k) {
      const std::uint64_t begin = b[k] & 0xFF, length = c[k] & 0xFF;
      const std::uint64_t value = static_cast<std::uint64_t>(In::get(a[k]));
      const std::uint64_t shifted = begin < In::bits ? (value & ones(In::bits)) >> begin : 0;
      std::uint64_t made = shifted & ones(length);
      if constexpr (std::is_signed_v<typename In::Value>) {
        const std::uint64_t last =
            begin + length - 1 < In::bits ? begin + length - 1 : In::bits - 1;
        if (length != 0 && (value >> last & 1) != 0) {
          const std::uint64_t width = last >= begin ? last - begin + 1 : 0;
          made |= ~ones(width);
        }
      }
      to[k] = Out::put(static_cast<typename Out::Value>(made));
    });
  }
};
/// bfi: the lowest bits of the first operand into the second.
template <class In, class Out, class>
struct Insert {
  static void run(Warp& warp, const Instruction& i, Mask mask) {
    std::uint64_t* const to = warp.row(i.to[0]);
    const std::uint64_t *const a = warp.row(i.from[0]), *const b = warp.row(i.from[1]),
                               *const c = warp.row(i.from[2]), *const d = warp.row(i.from[3]);
    for_lanes(mask, [=](unsigned k) {
      const std::uint64_t begin = c[k] & 0xFF, length = d[k] & 0xFF;
      const std::uint64_t field = begin < 64 ? ones(length) << begin : 0;
      const std::uint64_t value = begin < 64 ? a[k] << begin : 0;
      to[k] = Out::put(static_cast<typename Out::Value>((b[k] & ~field) | (value & field)));
    });
  }
};
/// prmt: four of the eight bytes of two operands, or their signs.
void permute(Warp& warp, const Instruction& i, Mask mask) {
  std::uint64_t* const to = warp.row(i.to[0]);
  const std::uint64_t *const a = warp.row(i.from[0]), *const b = warp.row(i.from[1]),
                             *const c = warp.row(i.from[2]);
  for_lanes(mask, [=](unsigned k) {
    const std::uint64_t both = U32::get(b[k]) << 32 | U32::get(a[k]);
    std::uint64_t made = 0;
    for (unsigned byte = 0; byte < 4; ++byte) {
      const std::uint64_t choice = c[k] >> (4 * byte) & 0xF;
      std::uint64_t value = both >> (8 * (choice & 7)) & 0xFF;
      if ((choice & 8) != 0) value = (value & 0x80) != 0 ? 0xFF : 0;
      made |= value << (8 * byte);
    }
    to[k] = made;
  });
}

template <class F>
void of_predicates(Warp& warp, const Instruction& i, Mask mask) {
  set_predicate(warp, i.to[0], mask,
                static_cast<Mask>(F{}(holds(warp, i, 0), holds(warp, i, i.operands - 1))));
}
struct First {
  std::uint64_t operator()(std::uint64_t a, std::uint64_t) const { return a; }
};
struct NotFirst {
  std::uint64_t operator()(std::uint64_t a, std::uint64_t) const { return ~a; }
};

void select(Warp& warp, const Instruction& i, Mask mask) {
  std::uint64_t* const to = warp.row(i.to[0]);
  const std::uint64_t *const a = warp.row(i.from[0]), *const b = warp.row(i.from[1]);
  const Mask first = holds(warp, i, 2);
  for_lanes(mask, [=](unsigned k) { to[k] = (first >> k & 1) != 0 ? a[k] : b[k]; });
}
void copy(Warp& warp, const Instruction& i, Mask mask) {
  std::uint64_t* const to = warp.row(i.to[0]);
  const std::uint64_t* const from = warp.row(i.from[0]);
  for_lanes(mask, [=](unsigned k) { to[k] = from[k]; });
}
/// mov: takes a value apart, or puts one together; option: the bits of a part.
void move_parts(Warp& warp, const Instruction& i, Mask mask) {
  const unsigned bits = i.option;
  for_lanes(mask, [&](unsigned k) {
    std::uint64_t value = warp.row(i.from[i.operands - 1])[k];
    for (unsigned part = i.operands - 1U; part-- > 0;) {
      value = value << bits | (warp.row(i.from[part])[k] & ones(bits));
    }
    for (unsigned part = 0; part < i.results; ++part) {
      warp.row(i.to[part])[k] = i.results == 1 ? value : value >> (bits * part) & ones(bits);
    }
  });
}

unsigned bits_of(Type type) {
  switch (type) {
    case Type::u8:
    case Type::s8: return 8;
    case Type::u16:
    case Type::s16:
    case Type::f16:
    case Type::bf16: return 16;
    case Type::u64:
    case Type::s64:
    case Type::f64: return 64;
    default: return 32;
  }
}

template <class F>
Handler bitwise(Type type) {
  return type == Type::pred ? of_predicates<F> : of_integers<Binary, F>(type);
}

}  // namespace

Handler logic(const Opcode& opcode, Instruction& instruction) {
  const std::string& name = opcode.name;
  const Type type = opcode.type();
  const bool wide = bits_of(type) == 64;
  if (name == "mov") {
    if (type == Type::pred) return of_predicates<First>;
    if (instruction.results == 1 && instruction.operands == 1) return copy;
    const unsigned parts = std::max(instruction.results, instruction.operands);
    instruction.option = static_cast<std::uint8_t>(bits_of(type) / parts);
    return move_parts;
  }
  if (name == "selp") return select;
  if (name == "and") return bitwise<And>(type);
  if (name == "or") return bitwise<Or>(type);
  if (name == "xor") return bitwise<Xor>(type);
  if (name == "not") {
    return type == Type::pred ? of_predicates<NotFirst> : of_integers<Unary, Not>(type);
  }
  if (name == "shl") return of_integers<ShiftLeft, void>(type);
  if (name == "shr") return of_integers<ShiftRight, void>(type);
  if (name == "popc")
    return wide ? Unary<U64, U32, Population>::run : Unary<U32, U32, Population>::run;
  if (name == "clz") {
    return wide ? Unary<U64, U32, LeadingZeros<64>>::run : Unary<U32, U32, LeadingZeros<32>>::run;
  }
  if (name == "brev") {
    return wide ? Unary<U64, U64, Reverse<64>>::run : Unary<U32, U32, Reverse<32>>::run;
  }
  if (name == "bfind" && !opcode.has("shiftamt")) {
    switch (type) {
      case Type::u32: return Unary<U32, U32, HighestBit>::run;
      case Type::u64: return Unary<U64, U32, HighestBit>::run;
      case Type::s32: return Unary<S32, U32, HighestBit>::run;
      case Type::s64: return Unary<S64, U32, HighestBit>::run;
      default: return nullptr;
    }
  }
  if (name == "shf") {
    instruction.option =
        static_cast<std::uint8_t>((opcode.has("l") ? 1 : 0) | (opcode.has("wrap") ? 2 : 0));
    return funnel;
  }
  if (name == "lop3" && instruction.operands == 4) return three_way;
  if (name == "bfe") return of_integers<Extract, void>(type);
  if (name == "bfi") return of_integers<Insert, void>(type);
  if (name == "prmt" && opcode.modifiers.empty()) return permute;
  return nullptr;
}

}  // namespace emulator::ptx
