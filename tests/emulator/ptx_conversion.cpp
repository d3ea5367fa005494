// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// cvt: from every type of number to every other.
#include <cmath>
#include <limits>

#include "ptx_format.hpp"

namespace emulator::ptx {

namespace {

template <class Format>
constexpr bool is_integer = std::is_integral_v<typename Format::Value>;

/// To which integral value a float goes; in the option.
enum Rounding : std::uint8_t { none, nearest, towards_zero, downwards, upwards };
template <class T>
T integral(T x, unsigned rounding) {
  switch (rounding) {
    case nearest: return std::nearbyint(x);
    case towards_zero: return std::trunc(x);
    case downwards: return std::floor(x);
    case upwards: return std::ceil(x);
    default: return x;
  }
}

/// An integer as large as fits; 0 for what is not a number.
template <class Out, class T>
typename Out::Value clamp_to(T x) {
  using Value = typename Out::Value;
  constexpr unsigned digits = Out::bits - (std::is_signed_v<Value> ? 1 : 0);
  const T limit = std::ldexp(T{1}, static_cast<int>(digits));
  if (x != x) return 0;
  if (x >= limit) return static_cast<Value>(~std::uint64_t{0} >> (64 - digits));
  const T least = std::is_signed_v<Value> ? -limit : T{0};
  if (x <= least) {
    return std::is_signed_v<Value> ? static_cast<Value>(~std::uint64_t{0} << digits) : Value{0};
  }
  return static_cast<Value>(x);
}

template <class In, class Out>
void convert(Warp& warp, const Instruction& i, Mask mask) {
  std::uint64_t* const to = warp.row(i.to[0]);
  const std::uint64_t* const from = warp.row(i.from[0]);
  const unsigned rounding = i.option;
  for_lanes(mask, [=](unsigned k) {
    typename In::Value x = In::get(from[k]);
    if constexpr (!is_integer<In>) x = integral(x, rounding);
    if constexpr (!is_integer<In> && is_integer<Out>) {
      to[k] = Out::put(clamp_to<Out>(x));
    } else {
      to[k] = Out::put(static_cast<typename Out::Value>(x));
    }
  });
}

/// Of floats whose nearest neighbour lies beyond them, the one before.
template <bool goes_up, bool goes_down>
struct Directed {
  static float narrow(double x) {
    const auto near = static_cast<float>(x);
    const double infinity = std::numeric_limits<double>::infinity();
    const double wanted = goes_up ? infinity : goes_down ? -infinity : 0;
    const bool beyond = goes_up ? near < x : goes_down ? near > x : std::fabs(near) > std::fabs(x);
    return beyond ? std::nextafter(near, static_cast<float>(wanted)) : near;
  }
  float operator()(double x) const { return narrow(x); }
};

template <class In>
Handler to_type(Type type) {
  switch (type) {
    case Type::u8: return convert<In, U8>;
    case Type::u16: return convert<In, U16>;
    case Type::u32: return convert<In, U32>;
    case Type::u64: return convert<In, U64>;
    case Type::s8: return convert<In, S8>;
    case Type::s16: return convert<In, S16>;
    case Type::s32: return convert<In, S32>;
    case Type::s64: return convert<In, S64>;
    case Type::f16: return convert<In, F16>;
    case Type::bf16: return convert<In, BF16>;
    case Type::f32: return convert<In, F32>;
    case Type::f64: return convert<In, F64>;
    default: return nullptr;
  }
}

/// cvt.rn.bf16x2.f32 d, a, b: a in the upper half.
template <class Half>
struct Pack {
  struct Out {
    static std::uint64_t put(std::uint64_t slot) { return slot; }
  };
  struct Function {
    std::uint64_t operator()(float high, float low) const {
      return Half::put(high) << 16 | Half::put(low);
    }
  };
  static constexpr Handler run = Binary<F32, Out, Function>::run;
};

}  // namespace

Handler conversion(const Opcode& opcode, Instruction& instruction) {
  if (opcode.name != "cvt" || opcode.types.size() != 2) return nullptr;
  const Type to = opcode.types[0], from = opcode.types[1];
  if (to == Type::f16x2 && opcode.has("rn")) return Pack<F16>::run;
  if (to == Type::bf16x2 && opcode.has("rn")) return Pack<BF16>::run;
  const bool directed = opcode.has("rz") || opcode.has("rm") || opcode.has("rp");
  if (opcode.has("relu") || opcode.has("satfinite")) return nullptr;
  if (directed) {
    if (to != Type::f32 || from != Type::f64) return nullptr;
    return opcode.has("rp")   ? Unary<F64, F32, Directed<true, false>>::run
           : opcode.has("rm") ? Unary<F64, F32, Directed<false, true>>::run
                              : Unary<F64, F32, Directed<false, false>>::run;
  }
  constexpr const char* roundings[] = {"", "rni", "rzi", "rmi", "rpi"};
  for (unsigned k = none; k <= upwards; ++k) {
    if (opcode.has(roundings[k])) instruction.option = static_cast<std::uint8_t>(k);
  }
  switch (from) {
    case Type::u8: return to_type<U8>(to);
    case Type::u16: return to_type<U16>(to);
    case Type::u32: return to_type<U32>(to);
    case Type::u64: return to_type<U64>(to);
    case Type::s8: return to_type<S8>(to);
    case Type::s16: return to_type<S16>(to);
    case Type::s32: return to_type<S32>(to);
    case Type::s64: return to_type<S64>(to);
    case Type::f16: return to_type<F16>(to);
    case Type::bf16: return to_type<BF16>(to);
    case Type::f32: return to_type<F32>(to);
    case Type::f64: return to_type<F64>(to);
    default: return nullptr;
  }
}

}  // namespace emulator::ptx
