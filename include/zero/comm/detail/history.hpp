// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The last collectives of one rank, for the texts of errors. Includes comm/detail/call.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <zero/comm/detail/call.hpp>

namespace zero::detail {

/// A ring of what a rank issued last, on whatever communicators, and whether it is done. One thread
/// issues; any thread may end a collective or read. Nothing is locked: who reads while another
/// thread writes sees a mixture of two entries, which is good enough for a text.
class alignas(64) History {
 public:
  static constexpr std::size_t length = 8;

  /// Notes a collective and returns its number.
  std::uint64_t issue(const Call& call) noexcept {
    const std::uint64_t number = issued_.load(std::memory_order_relaxed);
    Entry& entry = entries_[number % length];
    const std::string_view name = call.operation != nullptr
                                      ? std::string_view(call.operation)
                                      : std::string_view(name_of(call.collective));
    entry.set(number, call, name);
    issued_.store(number + 1, std::memory_order_relaxed);
    return number;
  }
  /// How many were issued so far.
  std::uint64_t issued() const noexcept { return issued_.load(std::memory_order_relaxed); }
  void end(std::uint64_t number) noexcept {
    std::uint64_t open = 2 * number;
    entries_[number % length].stamp.compare_exchange_strong(open, open + 1,
                                                            std::memory_order_relaxed);
  }
  /// The latest `most` of them, the oldest first: "gather of block.3 at 17 in micro-step 0".
  std::string text(std::size_t most) const {
    const std::uint64_t issued = issued_.load(std::memory_order_relaxed);
    if (issued == 0) return "nothing";
    std::string text;
    const std::uint64_t count = std::min<std::uint64_t>({issued, most, length});
    for (std::uint64_t number = issued - count; number < issued; ++number) {
      if (!text.empty()) text += ", ";
      text += entries_[number % length].text();
    }
    return text;
  }

 private:
  struct Entry {
    static constexpr std::size_t name_bytes = 16, unit_bytes = 32;
    using Text = std::array<char, name_bytes + unit_bytes>;

    void set(std::uint64_t number, const Call& call, std::string_view name) noexcept {
      Text text{};
      std::copy_n(name.data(), std::min(name.size(), name_bytes), text.data());
      std::copy_n(call.unit.data(), std::min(call.unit.size(), unit_bytes),
                  text.data() + name_bytes);
      stamp.store(2 * number, std::memory_order_relaxed);
      place.store(std::uint64_t{call.position} << 32U | call.micro_step, std::memory_order_relaxed);
      for (std::size_t i = 0; i < words.size(); ++i) {
        std::uint64_t word = 0;
        std::memcpy(&word, text.data() + 8 * i, 8);
        words[i].store(word, std::memory_order_relaxed);
      }
    }
    std::string text() const {
      Text chars{};
      for (std::size_t i = 0; i < words.size(); ++i) {
        const std::uint64_t word = words[i].load(std::memory_order_relaxed);
        std::memcpy(chars.data() + 8 * i, &word, 8);
      }
      const auto part = [&](std::size_t begin, std::size_t bytes) {
        const std::string_view whole(chars.data() + begin, bytes);
        return std::string(whole.substr(0, whole.find('\0')));
      };
      std::string made = part(0, name_bytes);
      if (const std::string unit = part(name_bytes, unit_bytes); !unit.empty()) {
        made += " of " + unit;
      }
      const std::uint64_t at = place.load(std::memory_order_relaxed);
      if (at >> 32U != no_position) made += " at " + std::to_string(at >> 32U);
      if (static_cast<std::uint32_t>(at) != no_position) {
        made += " in micro-step " + std::to_string(static_cast<std::uint32_t>(at));
      }
      if (stamp.load(std::memory_order_relaxed) % 2 == 0) made += " (not done)";
      return made;
    }

    std::atomic<std::uint64_t> stamp{1};  // 2 * number, and 1 more when it is done
    std::atomic<std::uint64_t> place{0};  // position and micro-step
    std::array<std::atomic<std::uint64_t>, (name_bytes + unit_bytes) / 8> words{};
  };

  std::atomic<std::uint64_t> issued_{0};
  std::array<Entry, length> entries_{};
};

}  // namespace zero::detail
