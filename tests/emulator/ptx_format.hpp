// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How values lie in rows, and loops over lanes that compute with them.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>
#include <zero/base/element.hpp>

#include "ptx_opcode.hpp"
#include "ptx_warp.hpp"

namespace emulator::ptx {

/// An integer; computed with in 64 bits.
template <class T>
struct Integer {
  using Value = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  static constexpr unsigned bits = sizeof(T) * 8;
  static Value get(std::uint64_t slot) { return static_cast<T>(slot); }
  static std::uint64_t put(Value value) {
    return static_cast<std::uint64_t>(static_cast<Value>(static_cast<T>(value)));
  }
};
using U8 = Integer<std::uint8_t>;
using U16 = Integer<std::uint16_t>;
using U32 = Integer<std::uint32_t>;
using U64 = Integer<std::uint64_t>;
using S8 = Integer<std::int8_t>;
using S16 = Integer<std::int16_t>;
using S32 = Integer<std::int32_t>;
using S64 = Integer<std::int64_t>;

/// As a GPU does, arithmetic gives but one float that is not a number.
struct F32 {
  using Value = float;
  static float get(std::uint64_t slot) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(slot));
  }
  static std::uint64_t put(float value) {
    return value == value ? std::bit_cast<std::uint32_t>(value) : 0x7FFFFFFFU;
  }
};
struct F64 {
  using Value = double;
  static double get(std::uint64_t slot) { return std::bit_cast<double>(slot); }
  static std::uint64_t put(double value) { return std::bit_cast<std::uint64_t>(value); }
};
/// A narrow type, computed with in float.
template <class T>
struct Narrow {
  using Value = float;
  static float get(std::uint64_t slot) {
    return zero::to_float(T::from_bits(static_cast<std::uint16_t>(slot)));
  }
  static std::uint64_t put(float value) { return value == value ? T(value).bits : 0x7FFFU; }
};
using F16 = Narrow<zero::fp16>;
using BF16 = Narrow<zero::bf16>;

// Shapes: loops over lanes with 1, 2 or 3 operands of a format, and a result of maybe another.

template <class In, class Out, class F>
struct Unary {
  static void run(Warp& warp, const Instruction& i, Mask mask) {
    std::uint64_t* const to = warp.row(i.to[0]);
    const std::uint64_t* const a = warp.row(i.from[0]);
    for_lanes(mask, [=](unsigned k) { to[k] = Out::put(F{}(In::get(a[k]))); });
  }
};
template <class In, class Out, class F>
struct Binary {
  static void run(Warp& warp, const Instruction& i, Mask mask) {
    std::uint64_t* const to = warp.row(i.to[0]);
    const std::uint64_t *const a = warp.row(i.from[0]), *const b = warp.row(i.from[1]);
    for_lanes(mask, [=](unsigned k) { to[k] = Out::put(F{}(In::get(a[k]), In::get(b[k]))); });
  }
};
/// The third operand has the format of the result: in mad.wide it is wider than the others.
template <class In, class Out, class F>
struct Ternary {
  static void run(Warp& warp, const Instruction& i, Mask mask) {
    std::uint64_t* const to = warp.row(i.to[0]);
    const std::uint64_t *const a = warp.row(i.from[0]), *const b = warp.row(i.from[1]),
                               *const c = warp.row(i.from[2]);
    for_lanes(mask, [=](unsigned k) {
      to[k] = Out::put(F{}(In::get(a[k]), In::get(b[k]), Out::get(c[k])));
    });
  }
};
/// A shape for both halves of 32 bits.
template <template <class, class, class> class Shape, class Half, class F>
struct Paired {
  struct Pair {
    using Value = std::uint64_t;
    static std::uint64_t get(std::uint64_t slot) { return slot; }
    static std::uint64_t put(std::uint64_t slot) { return slot; }
  };
  struct Both {
    template <class... Slots>
    std::uint64_t operator()(Slots... slots) const {
      return Half::put(F{}(Half::get(slots)...)) | Half::put(F{}(Half::get(slots >> 16)...)) << 16;
    }
  };
  static constexpr Handler run = Shape<Pair, Pair, Both>::run;
};

template <template <class, class, class> class Shape, class F>
Handler of_integers(Type type) {
  switch (type) {
    case Type::u8: return Shape<U8, U8, F>::run;
    case Type::u16: return Shape<U16, U16, F>::run;
    case Type::u32: return Shape<U32, U32, F>::run;
    case Type::u64: return Shape<U64, U64, F>::run;
    case Type::s8: return Shape<S8, S8, F>::run;
    case Type::s16: return Shape<S16, S16, F>::run;
    case Type::s32: return Shape<S32, S32, F>::run;
    case Type::s64: return Shape<S64, S64, F>::run;
    default: return nullptr;
  }
}
template <template <class, class, class> class Shape, class F>
Handler of_floats(Type type) {
  switch (type) {
    case Type::f32: return Shape<F32, F32, F>::run;
    case Type::f64: return Shape<F64, F64, F>::run;
    case Type::f16: return Shape<F16, F16, F>::run;
    case Type::bf16: return Shape<BF16, BF16, F>::run;
    case Type::f16x2: return Paired<Shape, F16, F>::run;
    case Type::bf16x2: return Paired<Shape, BF16, F>::run;
    default: return nullptr;
  }
}

}  // namespace emulator::ptx
