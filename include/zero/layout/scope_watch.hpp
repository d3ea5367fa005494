// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ScopeWatch: whether the scope in which a view was taken has ended. May include base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <zero/base/error.hpp>

namespace zero {

/// Counts the scopes of one unit that have ended: on the host, and where the code of their unit
/// runs, which may be later. It outlives the views that refer to it.
class ScopeWatch {
 public:
  ScopeWatch() = default;
  /// Says which unit errors name.
  void name(std::string unit) { unit_ = std::move(unit); }
  /// Ends a scope on the host and returns how many have ended.
  std::uint64_t leave() noexcept { return ++left_; }
  /// The same where its code runs: views that were taken before leave() are stale.
  void end(std::uint64_t left) noexcept { __atomic_store_n(&ended_, left, __ATOMIC_RELEASE); }
  /// How many views were given out.
  std::uint64_t left() const noexcept { return left_; }
  /// How many scopes have ended.
  std::uint64_t ended() const noexcept { return __atomic_load_n(&ended_, __ATOMIC_ACQUIRE); }
  /// The unit that errors name.
  const std::string& unit() const { return unit_; }

 private:
  // Not std::atomic, whose header is more than this one may cost.
  std::uint64_t left_ = 0, ended_ = 0;
  std::string unit_;
};

namespace detail {
/// What a view knows of its scope: nothing below check level 2.
template <int Level>
struct ViewCheck {
  static constexpr bool watches = false;
  constexpr void use() const {}
  constexpr void use(std::size_t, std::size_t) const {}
};
template <int Level>
requires(Level >= 2) struct ViewCheck<Level> {
  static constexpr bool watches = true;
  constexpr ViewCheck() = default;
  explicit ViewCheck(const ScopeWatch& watch) : watch_(&watch), taken_(watch.left()) {}

  /// Errors:  ContractError if the scope has ended.
  constexpr void use() const {
    if (watch_ == nullptr || watch_->ended() <= taken_) return;
    throw ContractError("zero::Tensor: a view of unit '" + watch_->unit() +
                        "' was used after the scope in which it was taken had ended, when its "
                        "elements may be released; take a new one from the unit in each scope");
  }
  constexpr void use(std::size_t i, std::size_t size) const {
    use();
    if (i < size) return;
    throw ContractError(
        "zero::Tensor: element " + std::to_string(i) + " of a view of " + std::to_string(size) +
        " elements was used" +
        (watch_ == nullptr ? std::string() : " (of unit '" + watch_->unit() + "')") +
        "; stay below size()");
  }

 private:
  const ScopeWatch* watch_ = nullptr;
  std::uint64_t taken_ = 0;
};
}  // namespace detail

}  // namespace zero
