// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Text from files that nobody vouches for: whether it is UTF-8, how it is quoted, base names.
// Standard library only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace zero::detail {

/// Whether all of `text` is well-formed UTF-8: no overlong form, no surrogate, nothing beyond
/// U+10FFFF.
constexpr bool is_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned lead = byte(i);
    const std::size_t more = lead < 0x80                    ? 0
                             : lead >= 0xC2 && lead <= 0xDF ? 1
                             : lead >= 0xE0 && lead <= 0xEF ? 2
                             : lead >= 0xF0 && lead <= 0xF4 ? 3
                                                            : 4;
    if (more == 4 || more >= text.size() - i) return false;
    for (std::size_t k = 1; k <= more; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    }
    if (more >= 2) {  // the second byte tells overlong forms, surrogates and what lies beyond
      const unsigned second = byte(i + 1);
      if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
          (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) {
        return false;
      }
    }
    i += more + 1;
  }
  return true;
}

/// A name for an error's text: in quotes, shortened, and without control characters.
inline std::string in_quotes(std::string_view name) {
  constexpr std::size_t most = 120;
  std::string made = "'";
  for (const char c : name.substr(0, most)) made += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  return made + (name.size() > most ? "...'" : "'");
}

/// Whether `name` names something in a directory and nothing else.
constexpr bool is_base_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

/// Digits only, without a leading zero or a value of 2^63 or more; -1 for anything else.
constexpr std::int64_t count_from(std::string_view digits) {
  if (digits.empty() || digits.size() > 19 || (digits[0] == '0' && digits.size() > 1)) return -1;
  std::uint64_t value = 0;  // 19 digits fit
  for (const char c : digits) {
    if (c < '0' || c > '9') return -1;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value <= INT64_MAX ? static_cast<std::int64_t>(value) : -1;
}

}  // namespace zero::detail
