// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// atom and red.
#include <bit>
#include <cmath>
#include <iterator>

#include "ptx_format.hpp"
#include "ptx_memory.hpp"

namespace emulator::ptx {

namespace {

enum class Change : std::uint8_t { add, min, max, land, lor, lxor, exch, cas, inc, dec };

template <class Value>
Value changed(Change change, Value old, Value a, Value b) {
  switch (change) {
    case Change::add:
      if constexpr (std::is_integral_v<Value>) {
        return static_cast<Value>(static_cast<std::uint64_t>(old) + static_cast<std::uint64_t>(a));
      } else {
        return old + a;
      }
    case Change::min: return a < old ? a : old;
    case Change::max: return a > old ? a : old;
    case Change::exch: return a;
    case Change::cas: return old == a ? b : old;
    case Change::inc: return old >= a ? Value{0} : old + 1;
    case Change::dec: return old == 0 || old > a ? a : old - 1;
    default: break;
  }
  if constexpr (std::is_integral_v<Value>) {
    if (change == Change::land) return old & a;
    if (change == Change::lor) return old | a;
    return old ^ a;
  } else {
    return old;
  }
}

/// One lane after the other, each by an atomic instruction of this thread.
template <class Format, class Bits>
void change_memory(Warp& warp, const Instruction& i, Mask mask) {
  std::byte* places[warp_size];
  locate(warp, i, mask, sizeof(Bits), places);
  const std::uint64_t* const a = warp.row(i.from[1]);
  const std::uint64_t* const b = warp.row(i.from[i.operands - 1]);
  std::uint64_t* const to = i.results == 0 ? nullptr : warp.row(i.to[0]);
  const int order = i.ordered ? __ATOMIC_ACQ_REL : __ATOMIC_RELAXED;
  const auto change = static_cast<Change>(i.option);
  for_lanes(mask, [&](unsigned k) {
    auto* const at = reinterpret_cast<Aliased<Bits>*>(places[k]);
    Bits old = __atomic_load_n(at, __ATOMIC_RELAXED);
    for (bool done = false; !done;) {
      const auto made = changed(change, Format::get(old), Format::get(a[k]), Format::get(b[k]));
      const Bits bits = static_cast<Bits>(Format::put(made));
      done = __atomic_compare_exchange_n(at, &old, bits, false, order, __ATOMIC_RELAXED);
    }
    if (to != nullptr) to[k] = Format::put(Format::get(old));
  });
}

}  // namespace

Handler atomics(const Opcode& opcode, Instruction& instruction) {
  if (opcode.name != "atom" && opcode.name != "red") return nullptr;
  constexpr const char* changes[] = {"add", "min",  "max", "and", "or",
                                     "xor", "exch", "cas", "inc", "dec"};
  instruction.ordered = opcode.has("acquire") || opcode.has("release") || opcode.has("acq_rel");
  std::size_t change = 0;
  while (change < std::size(changes) && !opcode.has(changes[change])) ++change;
  if (change == std::size(changes) || instruction.results > 1) return nullptr;
  instruction.option = static_cast<std::uint8_t>(change);
  switch (opcode.type()) {
    case Type::u16: return change_memory<U16, std::uint16_t>;
    case Type::u32: return change_memory<U32, std::uint32_t>;
    case Type::s32: return change_memory<S32, std::uint32_t>;
    case Type::u64: return change_memory<U64, std::uint64_t>;
    case Type::s64: return change_memory<S64, std::uint64_t>;
    case Type::f32: return change_memory<F32, std::uint32_t>;
    case Type::f64: return change_memory<F64, std::uint64_t>;
    default: return nullptr;
  }
}

}  // namespace emulator::ptx
