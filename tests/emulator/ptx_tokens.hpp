// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The words and signs of PTX text, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace emulator::ptx {

/// Replaces comments, and lines that say where in the source one is, by blanks.
void blank_comments(std::string& text);

class Tokens {
 public:
  /// Pre:     `text` outlives this object and has no comments.
  explicit Tokens(const std::string& text);

  bool at_end() const { return at_ == words_.size(); }
  /// The word that comes next, or some words later; a blank at the end.
  std::string_view peek(std::size_t ahead = 0) const;
  std::string_view next();
  /// Whether `word` comes next; then it is passed.
  bool accept(std::string_view word);
  void expect(std::string_view word);
  /// Passes all words up to `word`, and that.
  void skip_to(std::string_view word);
  /// Passes a number: decimal, hexadecimal, or 0f and 0d with the bits of a float.
  std::uint64_t number();

  std::size_t position() const { return at_; }
  /// The text from the word at a position up to here, with single blanks.
  std::string text_from(std::size_t position) const;
  [[noreturn]] void fail(const std::string& expected) const;

 private:
  std::string_view text_;
  std::vector<std::string_view> words_ = {};
  std::size_t at_ = 0;
};

}  // namespace emulator::ptx
