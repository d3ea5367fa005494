// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Comparisons.
#include <cmath>
#include <iterator>

#include "ptx_format.hpp"

namespace emulator::ptx {

namespace {

/// Which outcomes of a comparison make it true.
constexpr unsigned less = 1, equal = 2, greater = 4, unordered = 8;
struct NamedComparison {
  const char* name;
  unsigned outcomes;
};
constexpr NamedComparison comparisons[] = {
    {"eq", equal},
    {"ne", less | greater},
    {"lt", less},
    {"le", less | equal},
    {"gt", greater},
    {"ge", greater | equal},
    {"lo", less},
    {"ls", less | equal},
    {"hi", greater},
    {"hs", greater | equal},
    {"equ", equal | unordered},
    {"neu", less | greater | unordered},
    {"ltu", less | unordered},
    {"leu", less | equal | unordered},
    {"gtu", greater | unordered},
    {"geu", greater | equal | unordered},
    {"num", less | equal | greater},
    {"nan", unordered},
};
// What joins the result with a further predicate; in the upper bits of the option.
constexpr const char* joins[] = {"", "and", "or", "xor"};

/// The lanes for which the comparison holds.
template <class Format>
Mask compare(Warp& warp, const Instruction& i, Mask mask) {
  const std::uint64_t *const a = warp.row(i.from[0]), *const b = warp.row(i.from[1]);
  const unsigned wanted = i.option & 15;
  Mask result = 0;
  for_lanes(mask, [&](unsigned k) {
    const auto x = Format::get(a[k]);
    const auto y = Format::get(b[k]);
    const unsigned outcome = (x < y ? less : 0) | (x == y ? equal : 0) | (x > y ? greater : 0);
    result |= Mask{(wanted & (outcome != 0 ? outcome : unordered)) != 0} << k;
  });
  return result;
}
Mask join(unsigned how, Mask a, Mask b) { return how == 1 ? a & b : how == 2 ? a | b : a ^ b; }

template <class Format>
void set_predicates(Warp& warp, const Instruction& i, Mask mask) {
  const Mask result = compare<Format>(warp, i, mask);
  const unsigned how = i.option >> 4;
  const Mask other = how == 0 ? 0 : holds(warp, i, 2);
  set_predicate(warp, i.to[0], mask, how == 0 ? result : join(how, result, other));
  if (i.results == 2) {
    set_predicate(warp, i.to[1], mask, how == 0 ? ~result : join(how, ~result, other));
  }
}
/// set: all ones, or 1.0 for a float.
template <class Format, bool as_float>
void set_number(Warp& warp, const Instruction& i, Mask mask) {
  Mask result = compare<Format>(warp, i, mask);
  if (i.option >> 4 != 0) result = join(i.option >> 4, result, holds(warp, i, 2));
  std::uint64_t* const to = warp.row(i.to[0]);
  for_lanes(mask, [&](unsigned k) {
    to[k] = (result >> k & 1) == 0 ? 0 : as_float ? F32::put(1) : 0xFFFFFFFFU;
  });
}

template <class Format>
Handler handler(const Opcode& opcode) {
  if (opcode.name == "setp") return set_predicates<Format>;
  return opcode.types.front() == Type::f32 ? set_number<Format, true> : set_number<Format, false>;
}

template <class Format>
void test(Warp& warp, const Instruction& i, Mask mask) {
  const std::uint64_t* const a = warp.row(i.from[0]);
  Mask result = 0;
  for_lanes(mask, [&](unsigned k) {
    const auto x = Format::get(a[k]);
    const bool is[] = {std::isfinite(x), std::isinf(x),    x == x,
                       x != x,           std::isnormal(x), std::fpclassify(x) == FP_SUBNORMAL};
    result |= Mask{is[i.option]} << k;
  });
  set_predicate(warp, i.to[0], mask, result);
}

}  // namespace

Handler comparison(const Opcode& opcode, Instruction& instruction) {
  if (opcode.name == "testp") {
    constexpr const char* tests[] = {"finite",     "infinite", "number",
                                     "notanumber", "normal",   "subnormal"};
    for (std::size_t k = 0; k < std::size(tests); ++k) {
      if (opcode.has(tests[k])) instruction.option = static_cast<std::uint8_t>(k);
    }
    return opcode.type() == Type::f32 ? test<F32> : test<F64>;
  }
  if (opcode.name != "setp" && opcode.name != "set") return nullptr;
  unsigned option = 0;
  for (const NamedComparison& named : comparisons) {
    if (opcode.has(named.name)) option |= named.outcomes;
  }
  for (unsigned k = 1; k < std::size(joins); ++k) {
    if (opcode.has(joins[k])) option |= k << 4;
  }
  instruction.option = static_cast<std::uint8_t>(option);
  switch (opcode.type()) {
    case Type::u16: return handler<U16>(opcode);
    case Type::u32: return handler<U32>(opcode);
    case Type::u64: return handler<U64>(opcode);
    case Type::s16: return handler<S16>(opcode);
    case Type::s32: return handler<S32>(opcode);
    case Type::s64: return handler<S64>(opcode);
    case Type::f16: return handler<F16>(opcode);
    case Type::bf16: return handler<BF16>(opcode);
    case Type::f32: return handler<F32>(opcode);
    case Type::f64: return handler<F64>(opcode);
    default: return nullptr;
  }
}

}  // namespace emulator::ptx
