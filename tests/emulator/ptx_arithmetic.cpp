// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Sums, products, quotients, roots and the like.
#include <cmath>

#include "ptx_format.hpp"

namespace emulator::ptx {

namespace {

__extension__ typedef __int128 SignedWide;
__extension__ typedef unsigned __int128 Wide;

template <class T>
constexpr bool whole = std::is_integral_v<T>;
constexpr std::uint64_t u(std::uint64_t value) { return value; }  // wraps where signed must not
constexpr std::uint64_t u(std::int64_t value) { return static_cast<std::uint64_t>(value); }

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (whole<T>)
      return static_cast<T>(u(a) + u(b));
    else
      return a + b;
  }
};
struct Subtract {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (whole<T>)
      return static_cast<T>(u(a) - u(b));
    else
      return a - b;
  }
};
struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (whole<T>)
      return static_cast<T>(u(a) * u(b));
    else
      return a * b;
  }
};
/// The upper half of a product of integers of so many bits.
template <unsigned bits>
struct MultiplyHigh {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_signed_v<T>) {
      return static_cast<T>((static_cast<SignedWide>(a) * b) >> bits);
    } else {
      return static_cast<T>((static_cast<Wide>(a) * b) >> bits);
    }
  }
};
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (!whole<T>) {
      return a / b;
    } else {
      if (b == 0) return static_cast<T>(~std::uint64_t{0});
      if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - u(a));
      return a / b;
    }
  }
};
struct Remainder {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return a;
    return std::is_signed_v<T> && b == static_cast<T>(-1) ? T{0} : a % b;
  }
};
struct Minimum {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (!whole<T>) {
      if (a == b) return std::signbit(a) ? a : b;
      if (a != a || b != b) return a == a ? a : b;
    }
    return a < b ? a : b;
  }
};
struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (!whole<T>) {
      if (a == b) return std::signbit(a) ? b : a;
      if (a != a || b != b) return a == a ? a : b;
    }
    return a > b ? a : b;
  }
};
/// min.NaN and max.NaN: what is not a number wins.
template <class F>
struct NotANumber {
  template <class T>
  T operator()(T a, T b) const {
    return a != a ? a : b != b ? b : F{}(a, b);
  }
};
struct MultiplyAdd {
  template <class T, class Sum>
  Sum operator()(T a, T b, Sum c) const {
    return static_cast<Sum>(u(a) * u(b) + u(c));
  }
};
template <unsigned bits>
struct MultiplyHighAdd {
  template <class T>
  T operator()(T a, T b, T c) const {
    return Add{}(MultiplyHigh<bits>{}(a, b), c);
  }
};
struct FusedMultiplyAdd {
  template <class T>
  T operator()(T a, T b, T c) const {
    return std::fma(a, b, c);
  }
};
struct Negate {
  template <class T>
  T operator()(T a) const {
    if constexpr (whole<T>)
      return static_cast<T>(0 - u(a));
    else
      return -a;
  }
};
struct Magnitude {
  template <class T>
  T operator()(T a) const {
    if constexpr (whole<T>)
      return std::is_signed_v<T> && a < 0 ? Negate{}(a) : a;
    else
      return std::fabs(a);
  }
};
struct CopySign {  // copysign d, a, b: b with the sign of a
  template <class T>
  T operator()(T a, T b) const {
    return std::copysign(b, a);
  }
};

struct SquareRoot {
  auto operator()(auto x) const { return std::sqrt(x); }
};
struct Reciprocal {
  auto operator()(auto x) const { return 1 / x; }
};
struct ReciprocalRoot {
  auto operator()(auto x) const { return 1 / std::sqrt(x); }
};
struct Exponential {
  auto operator()(auto x) const { return std::exp2(x); }
};
struct Logarithm {
  auto operator()(auto x) const { return std::log2(x); }
};
struct Sine {
  auto operator()(auto x) const { return std::sin(x); }
};
struct Cosine {
  auto operator()(auto x) const { return std::cos(x); }
};
struct HyperbolicTangent {
  auto operator()(auto x) const { return std::tanh(x); }
};

/// rcp.approx.ftz.f64 and its like: the lower half of the bits is zero.
template <class F>
struct UpperHalf {
  double operator()(double x) const {
    return F64::get(F64::put(F{}(x)) & ~std::uint64_t{0xFFFFFFFF});
  }
};

/// The product of two integers in twice their bits.
template <template <class, class, class> class Shape, class F>
Handler widened(Type type) {
  switch (type) {
    case Type::u16: return Shape<U16, U32, F>::run;
    case Type::u32: return Shape<U32, U64, F>::run;
    case Type::s16: return Shape<S16, S32, F>::run;
    case Type::s32: return Shape<S32, S64, F>::run;
    default: return nullptr;
  }
}
template <template <class, class, class> class Shape, template <unsigned> class F>
Handler upper(Type type) {
  switch (type) {
    case Type::u16: return Shape<U16, U16, F<16>>::run;
    case Type::u32: return Shape<U32, U32, F<32>>::run;
    case Type::u64: return Shape<U64, U64, F<64>>::run;
    case Type::s16: return Shape<S16, S16, F<16>>::run;
    case Type::s32: return Shape<S32, S32, F<32>>::run;
    case Type::s64: return Shape<S64, S64, F<64>>::run;
    default: return nullptr;
  }
}
template <template <class, class, class> class Shape, class F>
Handler of_numbers(Type type) {
  const Handler found = of_integers<Shape, F>(type);
  return found != nullptr ? found : of_floats<Shape, F>(type);
}

Handler product(const Opcode& opcode) {
  const bool adds = opcode.name == "mad";
  const Type type = opcode.type();
  if (opcode.has("wide")) {
    return adds ? widened<Ternary, MultiplyAdd>(type) : widened<Binary, Multiply>(type);
  }
  if (opcode.has("hi")) {
    return adds ? upper<Ternary, MultiplyHighAdd>(type) : upper<Binary, MultiplyHigh>(type);
  }
  if (!adds) return of_numbers<Binary, Multiply>(type);
  const Handler found = of_integers<Ternary, MultiplyAdd>(type);
  return found != nullptr ? found : of_floats<Ternary, FusedMultiplyAdd>(type);
}
template <class F>
Handler extremum(const Opcode& opcode) {
  if (!opcode.has("NaN")) return of_numbers<Binary, F>(opcode.type());
  return of_floats<Binary, NotANumber<F>>(opcode.type());
}
template <class F>
Handler function(const Opcode& opcode) {
  if (opcode.type() == Type::f64 && opcode.has("approx")) return Unary<F64, F64, UpperHalf<F>>::run;
  return of_floats<Unary, F>(opcode.type());
}

}  // namespace

Handler arithmetic(const Opcode& opcode) {
  const std::string& name = opcode.name;
  const Type type = opcode.type();
  if (opcode.has("cc")) return nullptr;  // carries
  if (name == "add") return of_numbers<Binary, Add>(type);
  if (name == "sub") return of_numbers<Binary, Subtract>(type);
  if (name == "mul" || name == "mad") return product(opcode);
  if (name == "fma") return of_floats<Ternary, FusedMultiplyAdd>(type);
  if (name == "div") return of_numbers<Binary, Divide>(type);
  if (name == "rem") return of_integers<Binary, Remainder>(type);
  if (name == "min") return extremum<Minimum>(opcode);
  if (name == "max") return extremum<Maximum>(opcode);
  if (name == "neg") return of_numbers<Unary, Negate>(type);
  if (name == "abs") return of_numbers<Unary, Magnitude>(type);
  if (name == "copysign") return of_floats<Binary, CopySign>(type);
  if (name == "sqrt") return of_floats<Unary, SquareRoot>(type);
  if (name == "rcp") return function<Reciprocal>(opcode);
  if (name == "rsqrt") return function<ReciprocalRoot>(opcode);
  if (name == "ex2") return of_floats<Unary, Exponential>(type);
  if (name == "lg2") return of_floats<Unary, Logarithm>(type);
  if (name == "sin") return of_floats<Unary, Sine>(type);
  if (name == "cos") return of_floats<Unary, Cosine>(type);
  if (name == "tanh") return of_floats<Unary, HyperbolicTangent>(type);
  return nullptr;
}

}  // namespace emulator::ptx
