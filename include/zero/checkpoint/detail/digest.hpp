// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Digests of bytes: XXH3 of libxxhash, which finds damage and is no signature. May include base/.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>

namespace zero::detail {

/// XXH3-128 of some bytes; as text it is what `xxhsum -H2` prints.
struct Digest {
  std::uint64_t high = 0, low = 0;

  friend bool operator==(const Digest&, const Digest&) = default;

  std::string text() const {
    std::string made(32, '0');
    for (std::size_t i = 0; i < 32; ++i) {
      const std::uint64_t half = i < 16 ? high : low;
      made[i] = "0123456789abcdef"[(half >> (60 - 4 * (i % 16))) & 15];
    }
    return made;
  }
  /// Nothing if the text is not 32 lower-case hexadecimal digits.
  static std::optional<Digest> from_text(std::string_view text) {
    if (text.size() != 32) return {};
    std::uint64_t halves[2] = {};
    for (std::size_t i = 0; i < 32; ++i) {
      const std::size_t digit = std::string_view("0123456789abcdef").find(text[i]);
      if (digit == std::string_view::npos) return {};
      halves[i / 16] = halves[i / 16] << 4 | digit;
    }
    return Digest{halves[0], halves[1]};
  }
  static Digest of(const void* data, std::size_t bytes) { return from(XXH3_128bits(data, bytes)); }
  static Digest of(std::string_view text) { return of(text.data(), text.size()); }
  static Digest from(XXH128_hash_t hash) { return {hash.high64, hash.low64}; }
};

/// 64 bits of some bytes and where they stand: for comparisons in memory.
inline std::uint64_t quick_digest(const void* data, std::size_t bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

/// The digest of bytes that come one part after the other.
class DigestStream {
 public:
  DigestStream() : state_(XXH3_createState(), &XXH3_freeState) {
    if (state_ == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());
  }
  void add(const void* data, std::size_t bytes) { XXH3_128bits_update(state_.get(), data, bytes); }
  Digest digest() const { return Digest::from(XXH3_128bits_digest(state_.get())); }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

}  // namespace zero::detail
