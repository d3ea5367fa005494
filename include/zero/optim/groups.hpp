// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Optimizers by the names of tensors. Includes optim/optimizer.hpp and base/.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/optim/optimizer.hpp>

namespace zero {

/// Whether a name is what a pattern describes: each `*` stands for any characters, or none.
constexpr bool matches(std::string_view pattern, std::string_view name) {
  // The last `*` takes as little as possible, then one more each time that what follows fails.
  std::size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

/// An optimizer for the tensors whose full names a pattern matches, such as "*.norm.*".
template <class O>
struct Group {
  std::string pattern;  // of names; * stands for any text
  O optimizer;          // of the tensors whose names match
};

/// Which optimizer updates which tensor: those of one type, with settings of their own. An
/// optimizer alone is one group of all tensors.
template <class O>
class Groups {
 public:
  /// One group of all tensors.
  Groups(O others) : groups_{{"*", std::move(others)}} {}
  /// Groups by name, and one of all others.
  Groups(O others, List<Group<O>> by_name) : Groups(std::move(others)) {
    for (Group<O>& group : by_name) groups_.push_back(std::move(group));
  }

  /// How many groups.
  std::size_t size() const { return groups_.size(); }
  /// Group 0 is that of all tensors that no pattern matches.
  const O& operator[](std::size_t group) const { return groups_[group].optimizer; }
  /// That of one name.
  ///
  /// Pre:     of() accepts the names.
  const O& of(std::string_view name) const {
    for (std::size_t g = 1; g < groups_.size(); ++g) {
      if (matches(groups_[g].pattern, name)) return groups_[g].optimizer;
    }
    return groups_[0].optimizer;
  }

  /// Errors:  ContractError for settings that make no sense, with the group's pattern.
  void check() const {
    for (const Group<O>& group : groups_) {
      try {
        if constexpr (requires { group.optimizer.check(); }) group.optimizer.check();
      } catch (const ContractError& error) {
        if (groups_.size() == 1) throw;
        throw ContractError(error.what() + (" (in the group of '" + group.pattern + "')"));
      }
    }
  }
  /// The group of each name, in order.
  ///
  /// Errors:  ContractError for a pattern that matches no name, and for a name that two match.
  List<std::size_t> of(std::span<const std::string> names) const {
    List<std::size_t> group_of(names.size(), 0);
    for (std::size_t g = 1; g < groups_.size(); ++g) {
      const std::string& pattern = groups_[g].pattern;
      bool any = false;
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (!matches(pattern, names[i])) continue;
        any = true;
        if (group_of[i] != 0) {
          throw ContractError("zero::groups: tensor '" + names[i] + "' is matched by both '" +
                              groups_[group_of[i]].pattern + "' and '" + pattern +
                              "'; make the patterns exclude each other");
        }
        group_of[i] = g;
      }
      if (!any) {
        throw ContractError(
            "zero::groups: the pattern '" + pattern + "' matches no tensor of the model" +
            (names.empty() ? std::string()
                           : "; names are unit.tensor, such as '" + names[0] + "'"));
      }
    }
    return group_of;
  }

 private:
  List<Group<O>> groups_;
};

/// Optimizers by name: zero::groups(AdamW{...}, {{"*.norm.*", AdamW{...}}, {"head.*",
/// AdamW{...}}}).
template <class O>
Groups<O> groups(O others, List<Group<std::type_identity_t<O>>> by_name) {
  return Groups<O>(std::move(others), std::move(by_name));
}

namespace detail {
template <class T>
struct OptimizerOf {
  using type = T;
};
template <class O>
struct OptimizerOf<Groups<O>> {
  using type = O;
};
template <class T>
using optimizer_of = typename OptimizerOf<T>::type;
}  // namespace detail

}  // namespace zero
