// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How a unit kind declares its tensors: name, member, shape and options, once. May include base/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/layout/tensor.hpp>

namespace zero {

/// What differs from a plain trained tensor; combined with `|`.
enum class TensorOption : std::uint8_t { none = 0, no_decay = 1, frozen = 2, replicated = 4 };

/// The optimizer's weight decay leaves this tensor alone.
inline constexpr TensorOption no_decay = TensorOption::no_decay;
/// The tensor is not trained: no gradient, no optimizer state.
inline constexpr TensorOption frozen = TensorOption::frozen;
/// The tensor is the same on every rank along the further axes of a mesh, such as a norm's weight
/// under tensor parallelism: only the first of them counts it in the norm of the gradient.
inline constexpr TensorOption replicated = TensorOption::replicated;

constexpr TensorOption operator|(TensorOption a, TensorOption b) {
  return static_cast<TensorOption>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool has(TensorOption options, TensorOption option) {
  return (static_cast<unsigned>(options) & static_cast<unsigned>(option)) != 0;
}

/// One tensor of a unit kind: `member` of `Kind` is its view.
template <class Kind, class Member>
struct Field {
  std::string_view name;
  Member Kind::*member;
  Shape shape;
  TensorOption options;
};

/// Declares one tensor. `name` must outlive the program's use of the kind: give it a literal.
template <class Kind, class Member>
constexpr Field<Kind, Member> tensor(std::string_view name, Member Kind::*member,
                                     const Shape& shape,
                                     TensorOption options = TensorOption::none) {
  return {name, member, shape, options};
}

/// The tensors of a unit kind, in the order of declaration. Nothing is allocated.
template <class... Fields>
struct FieldList {
  std::tuple<Fields...> fields;

  static constexpr std::size_t size() { return sizeof...(Fields); }
  /// Calls f(field) for each field, in order.
  template <class F>
  constexpr void for_each(F f) const {
    std::apply([&](const Fields&... field) { (..., f(field)); }, fields);
  }
};

/// Puts the declared tensors of a unit kind together.
template <class... Kinds, class... Members>
constexpr FieldList<Field<Kinds, Members>...> tensors(const Field<Kinds, Members>&... fields) {
  return {{fields...}};
}

namespace detail {
template <class Kind, class T, class List>
inline constexpr bool declares = false;  // that List consists of members Tensor<T> of Kind
template <class Kind, class T, class OneField>
inline constexpr bool declares_one = false;
template <class Kind, class T, int Level>
inline constexpr bool declares_one<Kind, T, Field<Kind, BasicTensor<T, Level>>> = true;
template <class Kind, class T, class... Fields>
inline constexpr bool declares<Kind, T, FieldList<Fields...>> = (true && ... &&
                                                                 declares_one<Kind, T, Fields>);

/// The highest check level of the members that a list declares.
template <class List>
inline constexpr int check_level_of = 1;
template <class... Kinds, class T, int... Levels>
inline constexpr int check_level_of<FieldList<Field<Kinds, BasicTensor<T, Levels>>...>> = [] {
  int most = 0;
  ((most = most < Levels ? Levels : most), ...);
  return sizeof...(Levels) == 0 ? 1 : most;
}();

template <template <class> class Kind, class Config, class T>
concept HasTensors = requires(const Config& config) {
  Kind<T>::tensors(config);
};
}  // namespace detail

/// A class template over the element type whose static `tensors(config)` returns zero::tensors(...)
/// of its own members, each a zero::Tensor of that element type.
template <template <class> class Kind, class Config, class T = float>
concept UnitKind = detail::HasTensors<Kind, Config, T> && requires(const Config& config) {
  requires detail::declares < Kind<T>, T,
  decltype(Kind<T>::tensors(config)) > ;
};

namespace detail {
/// Kind<T>::tensors(config), or one sentence about what is wrong with the kind and no tensors.
template <template <class> class Kind, class T, class Config>
constexpr auto fields_of(const Config& config) {
  constexpr bool has_tensors = HasTensors<Kind, Config, T>;
  if constexpr (UnitKind<Kind, Config, T>) {
    return Kind<T>::tensors(config);
  } else {
    static_assert(has_tensors,
                  "zero: this unit kind has no `static constexpr auto tensors(const Config&)` for "
                  "the given configuration; declare its tensors there.");
    static_assert(!has_tensors,
                  "zero: tensors() of this unit kind must return zero::tensors(zero::tensor(name, "
                  "&Kind::member, {shape}), ...) of its own members of type zero::Tensor<T>.");
    return FieldList<>{};
  }
}
}  // namespace detail

/// What a field says, without its member: for tables of tensors.
struct TensorSpec {
  std::string name;
  Shape shape;
  bool decay = true;
  bool frozen = false;
  bool replicated = false;
};

/// The tensors that Kind declares for `config`, in order.
///
/// Errors: ContractError for an empty name, a name given twice, or a member given twice.
template <template <class> class Kind, class Config>
std::vector<TensorSpec> specs_of(const Config& config) {
  const auto list = detail::fields_of<Kind, float>(config);
  std::vector<TensorSpec> specs;
  list.for_each([&](const auto& field) {
    if (field.name.empty()) {
      throw ContractError("zero::tensor: the name of tensor " + std::to_string(specs.size()) +
                          " of a unit kind is empty; name it");
    }
    std::size_t other = 0;
    list.for_each([&](const auto& earlier) {
      if (other >= specs.size()) return;
      const std::string& name = specs[other++].name;
      if (name == field.name) {
        throw ContractError("zero::tensors: two tensors of a unit kind are called '" + name +
                            "'; rename one");
      }
      if constexpr (std::is_same_v<decltype(earlier.member), decltype(field.member)>) {
        if (earlier.member == field.member) {
          throw ContractError("zero::tensors: '" + name + "' and '" + std::string(field.name) +
                              "' are bound to the same member of a unit kind; give each its own");
        }
      }
    });
    specs.push_back(
        {std::string(field.name), field.shape, !has(field.options, TensorOption::no_decay),
         has(field.options, TensorOption::frozen), has(field.options, TensorOption::replicated)});
  });
  return specs;
}

/// A view of one unit: the member of tensor i becomes Tensor<T>(pointer_of(i), its shape), or stays
/// empty where the pointer is null. At check level 2 the tensors know the scope that `watch`
/// counts. Allocates nothing.
template <template <class> class Kind, class T, class Config, class PointerOf>
constexpr Kind<T> view_of(const Config& config, PointerOf pointer_of,
                          [[maybe_unused]] const ScopeWatch* watch = nullptr) {
  Kind<T> view{};
  std::size_t i = 0;
  detail::fields_of<Kind, T>(config).for_each([&](const auto& field) {
    T* const data = pointer_of(i++);
    using View = std::remove_reference_t<decltype(view.*field.member)>;
    if (data == nullptr) return;
    if constexpr (View::check_level >= 2) {
      if (watch != nullptr) {
        view.*field.member = View(data, field.shape, detail::ViewCheck<View::check_level>(*watch));
        return;
      }
    }
    view.*field.member = View(data, field.shape);
  });
  return view;
}

}  // namespace zero
