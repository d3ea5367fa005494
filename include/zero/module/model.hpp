// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What a model consists of: lists of units of the user's kinds. May include layout/ and base/.
#pragma once
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/layout/fields.hpp>

namespace zero {

namespace detail {
template <template <class> class A, template <class> class B>
inline constexpr bool same_kind = false;
template <template <class> class A>
inline constexpr bool same_kind<A, A> = true;
}  // namespace detail

/// A run of units of one kind and one configuration, such as the blocks of a transformer.
template <template <class> class Kind, class Config>
struct UnitList {
  static_assert(UnitKind<Kind, Config>,
                "zero: a unit kind needs 'static auto tensors(const Config&)' that returns "
                "zero::tensors(zero::tensor(name, &Kind::member, {shape}), ...).");
  std::string name;                // of the unit, or what its number is put behind
  std::size_t count = 1;           // how many units of the kind
  bool numbered = false;           // units of this list are called name.0, name.1, ...
  Config config;                   // what tensors() is called with
  List<std::string> also_reads{};  // other units whose tensors it reads
  bool whole = false;              // whether it stays whole in every stage

  /// See ZERO_CHECK_LEVEL.
  static constexpr int check_level =
      detail::check_level_of<decltype(detail::fields_of<Kind, float>(std::declval<Config>()))>;
  /// Whether this is a list of units of that kind.
  template <template <class> class Other>
  static constexpr bool is = detail::same_kind<Kind, Other>;

  /// Keeps the parameters of these units whole at all times, in whatever stage: they are gathered
  /// after their update, not for each use.
  UnitList stays_whole() && {
    whole = true;
    return std::move(*this);
  }
  /// Declares that these units read the parameters of the unit called `other` too: tied weights.
  /// Their gradients are summed into one buffer, reduced and updated once.
  UnitList reads(std::string other) && {
    also_reads.push_back(std::move(other));
    return std::move(*this);
  }
};

/// One unit: parameters that are gathered, reduced and updated together.
template <template <class> class Kind, class Config>
UnitList<Kind, Config> unit(std::string name, Config config) {
  return {std::move(name), 1, false, std::move(config)};
}

/// `count` units of one kind, called name.0, name.1, ...
template <template <class> class Kind, class Config>
UnitList<Kind, Config> units(std::string name, std::size_t count, Config config) {
  return {std::move(name), count, true, std::move(config)};
}

/// The lists of units in the order in which the forward pass runs them.
template <class... Lists>
class Model {
 public:
  /// The lists of units, in the order of the forward.
  explicit Model(Lists... lists) : lists_(std::move(lists)...) {}

  /// Whether a list of the model is of kind `Kind`.
  template <template <class> class Kind>
  static constexpr bool has_kind = (false || ... || Lists::template is<Kind>);

  /// The highest check level of its kinds.
  static constexpr int check_level = [] {
    int most = 0;
    ((most = most < Lists::check_level ? Lists::check_level : most), ...);
    return most;
  }();

  /// How many there are.
  std::size_t units() const {
    return std::apply([](const auto&... list) { return (std::size_t{0} + ... + list.count); },
                      lists_);
  }

  /// Calls f(list, index of the list, index of its first unit) for each list, in order.
  template <class F>
  void for_each_list(F f) const {
    std::size_t index = 0, first = 0;
    std::apply([&](const auto&... list) { (..., (f(list, index++, first), first += list.count)); },
               lists_);
  }

  /// Calls f(config) for the list of kind `Kind` that holds `unit`; false if it is of another kind.
  template <template <class> class Kind, class F>
  bool with_kind(std::size_t unit, F f) const {
    std::size_t first = 0;
    return std::apply(
        [&](const auto&... list) { return (false || ... || try_list<Kind>(list, first, unit, f)); },
        lists_);
  }

 private:
  template <template <class> class Kind, template <class> class ListKind, class Config, class F>
  static bool try_list(const UnitList<ListKind, Config>& list, std::size_t& first, std::size_t unit,
                       F& f) {
    const bool inside = unit >= first && unit - first < list.count;
    first += list.count;
    if constexpr (detail::same_kind<Kind, ListKind>) {
      if (inside) f(list.config);
      return inside;
    } else {
      return false;
    }
  }
  std::tuple<Lists...> lists_;
};

/// Puts lists of units together, in the order in which the forward pass runs them.
template <class... Lists>
Model<Lists...> model(Lists... lists) {
  return Model<Lists...>(std::move(lists)...);
}

}  // namespace zero
