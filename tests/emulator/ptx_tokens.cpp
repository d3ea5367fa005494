// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include "ptx_tokens.hpp"

#include <algorithm>
#include <cctype>
#include <stdexcept>

namespace emulator::ptx {

namespace {
bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0 || c == '\0'; }
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' ||
         c == '.';
}
}  // namespace

void blank_comments(std::string& text) {
  const auto blank = [&](std::size_t from, std::size_t to) {
    to = std::min(to, text.size());
    std::replace_if(
        text.begin() + static_cast<std::ptrdiff_t>(from),
        text.begin() + static_cast<std::ptrdiff_t>(to), [](char c) { return c != '\n'; }, ' ');
    return to;
  };
  bool line_begins = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "/*") == 0) {
      const std::size_t end = text.find("*/", i + 2);
      i = blank(i, end == std::string::npos ? end : end + 2) - 1;
    } else if (text.compare(i, 2, "//") == 0 ||
               (line_begins &&
                (text.compare(i, 5, ".loc\t") == 0 || text.compare(i, 5, ".loc ") == 0 ||
                 text.compare(i, 5, ".file") == 0))) {
      i = blank(i, text.find('\n', i)) - 1;
    } else if (!is_blank(text[i]) || text[i] == '\n') {
      line_begins = text[i] == '\n';
    }
  }
}

Tokens::Tokens(const std::string& text) : text_(text) {
  for (std::size_t i = 0; i < text_.size();) {
    std::size_t end = i + 1;
    if (is_blank(text_[i])) {
      i = end;
      continue;
    }
    if (is_word(text_[i])) {
      while (end < text_.size() && is_word(text_[end])) ++end;
    } else if (text_[i] == '"') {
      end = std::min(text_.find('"', end), text_.size() - 1) + 1;
    } else if (text_[i] == ':' && text_.compare(i, 2, "::") == 0) {
      // A scope within an operation's name, such as shared::cta: part of the word before.
      while (end < text_.size() && (is_word(text_[end]) || text_[end] == ':')) ++end;
      if (!words_.empty() && words_.back().data() + words_.back().size() == text_.data() + i) {
        const std::size_t begin = static_cast<std::size_t>(words_.back().data() - text_.data());
        words_.back() = text_.substr(begin, end - begin);
        i = end;
        continue;
      }
    }
    words_.push_back(text_.substr(i, end - i));
    i = end;
  }
}

std::string_view Tokens::peek(std::size_t ahead) const {
  return at_ + ahead < words_.size() ? words_[at_ + ahead] : " ";
}
std::string_view Tokens::next() {
  if (at_end()) fail("more");
  return words_[at_++];
}
bool Tokens::accept(std::string_view word) {
  if (peek() != word) return false;
  ++at_;
  return true;
}
void Tokens::expect(std::string_view word) {
  if (!accept(word)) fail("'" + std::string(word) + "'");
}
void Tokens::skip_to(std::string_view word) {
  while (next() != word) continue;
}
std::uint64_t Tokens::number() {
  const bool negative = accept("-");
  std::string word(next());
  std::uint64_t value = 0;
  int base = 0;
  if (word.size() > 2 && word[0] == '0' &&
      std::string_view("fFdD").find(word[1]) != std::string_view::npos) {
    word.erase(0, 2);
    base = 16;
  }
  try {
    std::size_t used = 0;
    value = std::stoull(word, &used, base);
    if (used != word.size() && word.substr(used) != "U") throw std::invalid_argument(word);
  } catch (const std::logic_error&) {
    --at_;
    fail("a number");
  }
  return negative ? 0 - value : value;
}
std::string Tokens::text_from(std::size_t position) const {
  const char* const begin = words_[position].data();
  const std::string_view end = words_[at_ - 1];
  std::string made;
  for (const char c :
       std::string_view(begin, static_cast<std::size_t>(end.data() + end.size() - begin))) {
    if (!is_blank(c)) {
      made += c;
    } else if (!made.empty() && made.back() != ' ') {
      made += ' ';
    }
  }
  return made;
}
void Tokens::fail(const std::string& expected) const {
  std::string rest;
  for (std::size_t i = at_; i < std::min(at_ + 8, words_.size()); ++i) {
    rest += std::string(rest.empty() ? "" : " ") + std::string(words_[i]);
  }
  throw std::runtime_error("PTX: expected " + expected + " before '" + rest + "'");
}

}  // namespace emulator::ptx
