// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A strict reader of JSON from files that nobody vouches for. May include
// base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/text.hpp>

namespace zero::detail {

/// Reads a text from front to back; the caller says what must come next, so that depth and kinds
/// are those of the format and nothing is stored that was not asked for.
///
/// Errors:  CheckpointError, with `where` and the position, for anything else than one value of
///          RFC 8259 in UTF-8: duplicate keys, lone surrogates, fractions, numbers that do not fit.
/// Source:  RFC 8259.
class JsonReader {
 public:
  /// Both must outlive the reader.
  JsonReader(std::string_view text, const std::string& where) : text_(text), where_(where) {
    if (!is_utf8(text)) fail("the text is not UTF-8");
  }

  /// Calls member(key) for each member; it must read the value.
  template <class F>
  void object(F member) {
    expect('{');
    if (take('}')) return;
    std::set<std::string> keys;
    do {
      skip_space();
      const auto [key, is_new] = keys.insert(string());
      if (!is_new) fail("the key " + in_quotes(*key) + " stands twice");
      expect(':');
      member(*key);
    } while (take(','));
    expect('}');
  }
  /// Calls element() for each element; it must read the value.
  template <class F>
  void array(F element) {
    expect('[');
    if (take(']')) return;
    do { element(); } while (take(','));
    expect(']');
  }
  std::string string() {
    expect('"');
    std::string made;
    for (;;) {
      const char c = next();
      if (c == '"') return made;
      if (static_cast<unsigned char>(c) < 0x20) fail("a string holds a control character");
      if (c == '\\') {
        escape(made);
      } else {
        made += c;
      }
    }
  }
  /// An integer from 0 to `most`.
  std::uint64_t number(std::uint64_t most = UINT64_MAX) {
    skip_space();
    const std::size_t begin = at_;
    std::uint64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
      if (value > (UINT64_MAX - digit) / 10) fail("a number is too large");
      value = value * 10 + digit;
    }
    if (at_ == begin) fail("expected an integer from 0");
    if (text_[begin] == '0' && at_ > begin + 1) fail("a number begins with 0");
    if (at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E')) {
      fail("expected an integer");
    }
    if (value > most) {
      fail("expected at most " + std::to_string(most) + ", got " + std::to_string(value));
    }
    return value;
  }
  /// Reads a value of any kind and forgets it; not more than `depth` of them within each other.
  void skip(int depth = 16) {
    if (depth == 0) fail("values lie too deep within each other");
    skip_space();
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (c == '{') return object([&](const std::string&) { this->skip(depth - 1); });
    if (c == '[') return array([&] { this->skip(depth - 1); });
    if (c == '"') return static_cast<void>(string());
    const std::size_t begin = at_;
    constexpr std::string_view plain = "+-.0123456789Eaeflnrstu";  // numbers, true, false, null
    while (at_ < text_.size() && plain.find(text_[at_]) != plain.npos) ++at_;
    if (at_ == begin) fail("expected a value");
  }
  /// Nothing but white space may follow.
  void end() {
    skip_space();
    if (at_ != text_.size()) fail("something follows the end");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw CheckpointError(where_ + " is damaged or hostile: " + what + ", at byte " +
                          std::to_string(at_) + " of its text; take another copy");
  }

 private:
  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
  }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected ") + c);
  }
  char next() {
    if (at_ == text_.size()) fail("a string has no end");
    return text_[at_++];
  }
  void escape(std::string& made) {
    constexpr std::string_view letters = "\"\\/bfnrt", values = "\"\\/\b\f\n\r\t";
    const char c = next();
    if (const std::size_t i = letters.find(c); i != letters.npos) {
      made += values[i];
      return;
    }
    if (c != 'u') fail("an escape is unknown");
    std::uint32_t point = hex4();
    if (point >= 0xD800 && point <= 0xDFFF) {
      const bool is_pair = point < 0xDC00 && next() == '\\' && next() == 'u';
      const std::uint32_t low = is_pair ? hex4() : 0;
      if (low < 0xDC00 || low > 0xDFFF) fail("a surrogate stands alone");
      point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    }
    append(made, point);
  }
  std::uint32_t hex4() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      constexpr std::string_view digits = "0123456789abcdefABCDEF";
      const std::size_t digit = digits.find(next());
      if (digit == digits.npos) fail("an escape is not hexadecimal");
      value = value * 16 + static_cast<std::uint32_t>(digit < 16 ? digit : digit - 6);
    }
    return value;
  }
  static void append(std::string& made, std::uint32_t point) {
    const auto put = [&](std::uint32_t byte) { made += static_cast<char>(byte); };
    const auto tail = [&](std::uint32_t shift) { put(0x80 | ((point >> shift) & 0x3F)); };
    if (point < 0x80) {
      put(point);
    } else if (point < 0x800) {
      put(0xC0 | (point >> 6));
      tail(0);
    } else if (point < 0x10000) {
      put(0xE0 | (point >> 12));
      tail(6);
      tail(0);
    } else {
      put(0xF0 | (point >> 18));
      tail(12);
      tail(6);
      tail(0);
    }
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
};

}  // namespace zero::detail
