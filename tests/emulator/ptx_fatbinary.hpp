// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What nvcc embeds in an object.
#pragma once

#include <string>
#include <vector>

namespace emulator::ptx {

/// The PTX texts of a fat binary, one for each architecture that it was made for.
///
/// Errors:  std::runtime_error for what is no fat binary, and for PTX that was compressed.
std::vector<std::string> ptx_texts(const void* fatbin);

}  // namespace emulator::ptx
