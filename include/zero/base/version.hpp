// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The version of the library. Includes nothing.
#pragma once

namespace zero {

inline constexpr int version_major = 0;
inline constexpr int version_minor = 1;
inline constexpr int version_patch = 0;

}  // namespace zero
