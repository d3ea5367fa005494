// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Random bits as a pure function of numbers, so that every rank can compute any of them. Includes
// std only.
#pragma once

#include <cstdint>

namespace gpt {

/// One well-mixed number from a state and a further value; chain calls for several values.
/// Source:  Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014, figure 17.
constexpr std::uint64_t mix(std::uint64_t state, std::uint64_t value) {
  std::uint64_t z = (state ^ value) + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace gpt
