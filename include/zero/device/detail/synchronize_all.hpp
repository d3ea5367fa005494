// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How a device waits for its streams. Standard library only.
#pragma once

#include <exception>

namespace zero::detail {

/// Waits for all streams, whatever fails, then throws the first error of the first stream that has
/// one. `streams` holds pointers.
template <class Streams>
void synchronize_all(const Streams& streams) {
  std::exception_ptr first;
  for (const auto& stream : streams) {
    try {
      stream->synchronize();
    } catch (...) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace zero::detail
