// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A square root that compilers turn into vector code. Includes base/.
#pragma once

#include <cmath>
#include <zero/base/host_device.hpp>

// sqrtf sets errno for a negative number, so that a loop that calls it stays scalar: an AdamW that
// is two to three times slower. This declares that it has no such effect, as -fno-math-errno does
// for all functions. It holds for calls of ::sqrtf only; std::sqrt stays as it is.
#if defined(__GLIBC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
extern "C" ZERO_HOST_DEVICE [[gnu::const]] float sqrtf(float) noexcept;
#pragma GCC diagnostic pop
#endif

namespace zero::detail {

/// The square root of x >= 0, rounded to nearest.
ZERO_HOST_DEVICE constexpr float square_root(float x) {
  if (__builtin_is_constant_evaluated()) {
    if (!(x > 0)) return x;
    double root = x > 1 ? x : 1;  // Heron's method comes down to the root from above
    for (double next = 0; (next = (root + x / root) / 2) < root;) root = next;
    return static_cast<float>(root);
  }
  return ::sqrtf(x);
}

}  // namespace zero::detail
