// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Conversion of arrays between float, bf16 and fp16. May include base/.
#pragma once

#include <cstddef>
#include <zero/base/array.hpp>
#include <zero/base/element.hpp>
#include <zero/optim/detail/widest.hpp>

namespace zero {

/// One element as another type: exact if it fits, else rounded to nearest, ties to even.
template <class To>
struct Cast {
  /// Converts one element.
  template <class From>
  static constexpr To element(From value) {
    return from_float<To>(to_float(value));
  }
};

namespace detail {
template <class From, class To>
struct CastLoop {
  [[gnu::always_inline]] static void run(const From* __restrict from, To* __restrict to,
                                         std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) to[i] = Cast<To>::element(from[i]);
  }
};
template <class From, class To, bool adds>
struct ScaleLoop {
  [[gnu::always_inline]] static void run(const From* __restrict from, To* __restrict to,
                                         std::size_t n, float scale) {
    for (std::size_t i = 0; i < n; ++i) {
      const float value = to_float(from[i]) * scale;
      to[i] = from_float<To>(adds ? to_float(to[i]) + value : value);
    }
  }
};
}  // namespace detail

/// Converts n elements. Each of the types is float, bf16 or fp16.
///
/// Pre:     the arrays do not overlap.
template <class From, class To>
void cast(const From* from, To* to, std::size_t n) {
  detail::run_widest<detail::CastLoop<From, To>>(from, to, n);
}
/// The same for types that are known when the program runs.
///
/// Pre:     the arrays have the same count and do not overlap.
inline void cast(const Array& from, const Array& to) {
  with_type(from.type, [&]<class From>() {
    with_type(to.type, [&]<class To>() {
      cast(static_cast<const From*>(from.as<From>()), to.as<To>(), from.count);
    });
  });
}
/// Multiplies elements by `scale` and converts them; with `adds` they are added to what is there.
/// In fp32, rounded once.
///
/// Pre:     the arrays have the same count and do not overlap.
inline void cast_scaled(const Array& from, const Array& to, float scale, bool adds) {
  with_type(from.type, [&]<class From>() {
    with_type(to.type, [&]<class To>() {
      const From* const in = from.as<From>();
      using detail::ScaleLoop;
      if (adds) {
        detail::run_widest<ScaleLoop<From, To, true>>(in, to.as<To>(), from.count, scale);
      } else {
        detail::run_widest<ScaleLoop<From, To, false>>(in, to.as<To>(), from.count, scale);
      }
    });
  });
}

}  // namespace zero
