// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Runs a loop in the widest vectors that the processor has, whatever the program is compiled for.
// Standard library only.
#pragma once

namespace zero::detail {

// A program that is compiled for every x86-64 has vectors of 16 bytes. A second copy of a loop has
// those of 32; it has no fused multiply-add, so that it gives the same bits.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__AVX2__)
template <class Loop, class... Arguments>
[[gnu::target("avx2"), gnu::noinline]] void run_in_avx2(Arguments... arguments) {
  Loop::run(arguments...);
}
inline bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
#else
template <class Loop, class... Arguments>
void run_in_avx2(Arguments...) {}
constexpr bool has_avx2() { return false; }
#endif

/// Calls Loop::run(arguments...), which must be inlined always.
template <class Loop, class... Arguments>
[[gnu::noinline]] void run_widest(Arguments... arguments) {
  if (has_avx2()) return run_in_avx2<Loop>(arguments...);
  Loop::run(arguments...);
}

}  // namespace zero::detail
