// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Patterns of names. Includes the standard library only.
#pragma once
#include <cstddef>
#include <string_view>

namespace zero::detail {

/// Whether `name` is `pattern`, in which each '*' stands for any text, also for none.
constexpr bool name_matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;  // the last '*' takes one more
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace zero::detail
