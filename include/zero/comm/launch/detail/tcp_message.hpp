// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The two messages by which ranks find rank 0, byte for byte; between machines of one kind.
// Includes comm/launch/share.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <zero/comm/launch/share.hpp>

namespace zero::detail {

/// What a rank says first. Its size is fixed: nobody makes rank 0 read more.
struct TcpHello {
  static constexpr std::array<char, 8> right_magic = {'z', 'e', 'r', 'o', 'j', 'o', 'i', 'n'};
  static constexpr std::uint32_t right_version = 1;
  static constexpr std::size_t most_token_bytes = 64;

  std::array<char, 8> magic = right_magic;
  std::uint32_t version = right_version;
  std::uint32_t rank = 0, size = 0, token_bytes = 0;
  std::array<char, most_token_bytes> token{};

  bool is_one() const {
    return magic == right_magic && version == right_version && token_bytes <= token.size();
  }
  void set_token(std::string_view text) {
    token_bytes = static_cast<std::uint32_t>(text.size());
    std::copy(text.begin(), text.end(), token.begin());
  }
  /// Takes as long for any token of another.
  bool same_token(const TcpHello& other) const {
    unsigned difference = token_bytes ^ other.token_bytes;
    for (std::size_t i = 0; i < token.size(); ++i) {
      difference |= static_cast<unsigned char>(token[i] ^ other.token[i]);
    }
    return difference == 0;
  }
};

/// What rank 0 answers: the blob, or why not.
struct TcpReply {
  static constexpr std::array<char, 8> right_magic = {'z', 'e', 'r', 'o', 'b', 'l', 'o', 'b'};

  std::array<char, 8> magic = right_magic;
  std::uint32_t refused = 0, text_bytes = 0;
  LaunchBlob blob{};
  std::array<char, 368> chars{};

  void refuse(std::string_view why) {
    refused = 1;
    text_bytes = static_cast<std::uint32_t>(std::min(why.size(), chars.size()));
    std::copy_n(why.data(), text_bytes, chars.data());
  }
  std::string text() const {
    return {chars.data(), std::min<std::size_t>(text_bytes, chars.size())};
  }
};

static_assert(sizeof(TcpHello) == 88 && sizeof(TcpReply) == 512);

}  // namespace zero::detail
