// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Loads, stores, addresses.
#include "ptx_memory.hpp"

#include <string>

#include "ptx_format.hpp"

namespace emulator::ptx {

namespace {

/// What this thread reads and writes by plain instructions; `volatile` and the like by atomic ones.
template <class T>
T read(const std::byte* at, const Instruction& i) {
  const auto* const from = reinterpret_cast<const Aliased<T>*>(at);
  if (!i.atomic) return *from;
  return __atomic_load_n(from, i.ordered ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED);
}
template <class T>
void write(std::byte* at, T value, const Instruction& i) {
  auto* const to = reinterpret_cast<Aliased<T>*>(at);
  if (!i.atomic) {
    *to = value;
  } else {
    __atomic_store_n(to, value, i.ordered ? __ATOMIC_RELEASE : __ATOMIC_RELAXED);
  }
}

template <class In, class Out, class T>
struct Load {
  static void run(Warp& warp, const Instruction& i, Mask mask) {
    constexpr std::size_t bytes = In::bits / 8;
    std::byte* places[warp_size];
    locate(warp, i, mask, bytes * i.results, places);
    for (unsigned part = 0; part < i.results; ++part) {
      std::uint64_t* const to = warp.row(i.to[part]);
      for_lanes(mask, [&](unsigned k) {
        using Bits = Unsigned<bytes>;
        to[k] = Out::put(In::get(read<Bits>(places[k] + part * bytes, i)));
      });
    }
  }
};
template <std::size_t bytes>
void store(Warp& warp, const Instruction& i, Mask mask) {
  std::byte* places[warp_size];
  locate(warp, i, mask, bytes * (i.operands - 1U), places);
  for (unsigned part = 1; part < i.operands; ++part) {
    const std::uint64_t* const from = warp.row(i.from[part]);
    for_lanes(mask, [&](unsigned k) {
      write(places[k] + (part - 1) * bytes, static_cast<Unsigned<bytes>>(from[k]), i);
    });
  }
}

/// cvta: where the window of a space lies among generic addresses.
std::uint64_t window(Warp& warp, Space space, unsigned lane) {
  Execution& e = warp.execution();
  const std::byte* begin = nullptr;
  if (space == Space::shared) begin = e.shared_begin();
  if (space == Space::local) begin = e.local_begin(warp.first_thread() + lane);
  if (space == Space::param) begin = e.parameters.data();
  return reinterpret_cast<std::uintptr_t>(begin);
}
template <bool to_space>
void convert_address(Warp& warp, const Instruction& i, Mask mask) {
  std::uint64_t* const to = warp.row(i.to[0]);
  const std::uint64_t* const from = warp.row(i.from[0]);
  for_lanes(mask, [&](unsigned k) {
    const std::uint64_t begin = window(warp, i.space, k);
    to[k] = to_space ? from[k] - begin : from[k] + begin;
  });
}
void is_in_space(Warp& warp, const Instruction& i, Mask mask) {
  const std::uint64_t* const from = warp.row(i.from[0]);
  Mask result = 0;
  for_lanes(mask, [&](unsigned k) {
    const Space space = space_of_generic(warp, k, from[k]);
    result |= Mask{space == i.space} << k;
  });
  set_predicate(warp, i.to[0], mask, result);
}

template <template <class, class, class> class Shape>
Handler of_stored(Type type) {
  // Values of 32 and 64 bits are what they are, whether floats or integers.
  switch (type) {
    case Type::f32:
    case Type::f16x2:
    case Type::bf16x2: return of_integers<Shape, void>(Type::u32);
    case Type::f64: return of_integers<Shape, void>(Type::u64);
    case Type::f16:
    case Type::bf16: return of_integers<Shape, void>(Type::u16);
    default: return of_integers<Shape, void>(type);
  }
}
template <class In, class, class>
struct Store {
  static constexpr Handler run = store<In::bits / 8>;
};

}  // namespace

Space space_of(const Opcode& opcode) {
  for (const std::string& modifier : opcode.modifiers) {
    if (modifier == "global") return Space::global;
    if (modifier == "const") return Space::constant;
    if (modifier == "local") return Space::local;
    if (modifier == "shared" || modifier == "shared::cta") return Space::shared;
    if (modifier == "param" || modifier == "param::entry" || modifier == "param::func") {
      return Space::param;
    }
  }
  return Space::generic;
}

Handler memory(const Opcode& opcode, Instruction& instruction) {
  const std::string& name = opcode.name;
  instruction.ordered = opcode.has("acquire") || opcode.has("release");
  instruction.atomic = instruction.ordered || opcode.has("relaxed") || opcode.has("volatile");
  if (name == "ld" || name == "ldu") return of_stored<Load>(opcode.type());
  if (name == "st") return of_stored<Store>(opcode.type());
  if (name == "cvta") return opcode.has("to") ? convert_address<true> : convert_address<false>;
  if (name == "isspacep") return is_in_space;
  return nullptr;
}

}  // namespace emulator::ptx
