// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What a rank tells all others outside of collectives. Includes the standard library only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zero::detail {

/// That this rank has failed, and why, or that it has done with all communicators. Small enough to
/// be on its way at once, whether or not the others listen.
struct MpiNotice {
  bool is_failure = false, is_timeout = false;
  std::uint32_t rank = 0, text_bytes = 0;
  std::array<char, 2000> chars{};

  std::string_view text() const {
    return {chars.data(), std::min<std::size_t>(text_bytes, chars.size())};
  }
  /// What is longer is cut.
  void set_text(std::string_view text) {
    text_bytes = static_cast<std::uint32_t>(std::min(text.size(), chars.size()));
    std::copy_n(text.data(), text_bytes, chars.data());
  }
};

}  // namespace zero::detail
