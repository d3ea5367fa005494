// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ShapeError: a model or program that has no schedule. Includes the standard library only.
#pragma once

#include <exception>

namespace zero {

/// A model or program that no schedule can hold; in a constant expression, a compile error.
/// It is not a ContractError, because `<stdexcept>` would double what these headers cost to
/// include.
class ShapeError : public std::exception {
 public:
  /// An error with this text, which must live as long.
  explicit ShapeError(const char* sentence) noexcept : sentence_(sentence) {}
  /// The text.
  const char* what() const noexcept override { return sentence_; }

 private:
  const char* sentence_;
};

}  // namespace zero
