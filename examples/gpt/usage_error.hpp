// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The error of the person at the command line. Includes std only.
#pragma once

#include <stdexcept>

namespace gpt {

/// What was asked for cannot be done; the text is one sentence. A program prints it and exits
/// with 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace gpt
