// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The version of the library. Includes nothing.
#pragma once

namespace zero {

/// Of this library; while it is 0, a minor version may change names.
inline constexpr int version_major = 0;
inline constexpr int version_minor = 1;  // of this library
inline constexpr int version_patch = 0;  // of this library

}  // namespace zero
