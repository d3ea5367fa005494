// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Hasher: a 64-bit fingerprint of a schedule and of what surrounds it. Includes schedule/ only.
#pragma once

#include <string_view>
#include <zero/schedule/schedule.hpp>

namespace zero {

/// FNV-1a, 64 bits. Equal inputs give equal values on every machine.
/// Source:  Fowler, Noll, Vo; RFC 9923.
class Hasher {
 public:
  /// Adds a number to what is hashed.
  constexpr Hasher& mix(std::uint64_t value) {
    for (int i = 0; i < 8; ++i, value >>= 8) byte(value & 0xff);
    return *this;
  }
  /// Mixes the length too, so that "ab", "c" and "a", "bc" differ.
  constexpr Hasher& mix(std::string_view text) {
    for (const char c : text) byte(static_cast<unsigned char>(c));
    return mix(std::uint64_t{text.size()});
  }
  /// The hash of all that was added.
  constexpr std::uint64_t value() const { return value_; }

 private:
  constexpr void byte(std::uint64_t b) { value_ = (value_ ^ b) * 0x100000001b3u; }
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

/// Everything that an executor sees; ranks compare it before the first step.
constexpr std::uint64_t hash(const Schedule& schedule) {
  Hasher h;
  for (const Index extent : schedule.extent) h.mix(extent);
  for (const Index home : schedule.home) h.mix(home);
  for (const Step& step : schedule.steps) {
    h.mix(std::uint64_t{static_cast<std::uint8_t>(step.op)} |
          std::uint64_t{static_cast<std::uint8_t>(step.stream)} << 8 |
          std::uint64_t{step.subject} << 16 | std::uint64_t{step.micro_step} << 32 |
          std::uint64_t{step.access_count} << 48 | std::uint64_t{step.signals} << 56);
    for (std::size_t t = 0; t < stream_count; t += 2) {
      const std::uint32_t next = t + 1 < stream_count ? step.waits[t + 1] : no_wait;
      h.mix(std::uint64_t{step.waits[t]} | std::uint64_t{next} << 32);
    }
    for (const Access& a : step) {
      h.mix(std::uint64_t{static_cast<std::uint8_t>(a.space)} |
            std::uint64_t{static_cast<std::uint8_t>(a.mode)} << 8 | std::uint64_t{a.index} << 16);
    }
  }
  return h.value();
}

}  // namespace zero
