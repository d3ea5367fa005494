// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The writing of JSON. May include base/.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/text.hpp>

namespace zero::detail {

/// Appends `text` as a JSON string.
///
/// Errors:  ContractError if it is not UTF-8.
inline void append_json_string(std::string& json, std::string_view text) {
  if (!is_utf8(text)) {
    throw ContractError("zero: a checkpoint was to hold the text " + in_quotes(text) +
                        ", which is not UTF-8; encode it");
  }
  json += '"';
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      json += escaped;
    } else {
      if (c == '"' || c == '\\') json += '\\';
      json += c;
    }
  }
  json += '"';
}

/// Writes JSON objects and arrays; puts the commas.
class JsonText {
 public:
  JsonText& key(std::string_view name) {
    comma();
    append_json_string(text_, name);
    text_ += ':';
    return *this;
  }
  JsonText& string(std::string_view value) {
    comma();
    append_json_string(text_, value);
    return *this;
  }
  JsonText& number(std::uint64_t value) {
    comma();
    text_ += std::to_string(value);
    return *this;
  }
  /// body() writes what is between the two.
  template <class F>
  JsonText& within(const char* brackets, F body) {
    comma();
    text_ += brackets[0];
    body();
    text_ += brackets[1];
    return *this;
  }
  template <class F>
  JsonText& object(F body) {
    return within("{}", body);
  }
  template <class F>
  JsonText& array(F body) {
    return within("[]", body);
  }
  std::string take() { return std::move(text_); }

 private:
  void comma() {
    constexpr std::string_view none = "{[:";
    if (!text_.empty() && none.find(text_.back()) == none.npos) text_ += ',';
  }
  std::string text_;
};

}  // namespace zero::detail
