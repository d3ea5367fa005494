// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How a unit kind declares its tensors: name, member, shape and options, once. May include base/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <zero/base/element.hpp>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
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

/// Both options.
constexpr TensorOption operator|(TensorOption a, TensorOption b) {
  return static_cast<TensorOption>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
/// Whether `option` is among `options`.
constexpr bool has(TensorOption options, TensorOption option) {
  return (static_cast<unsigned>(options) & static_cast<unsigned>(option)) != 0;
}

/// One tensor of a unit kind: `member` of `Kind` is its view.
template <class Kind, class Member>
struct Field {
  using Pointer = Member Kind::*;  // to a member of the kind
  std::string_view name;           // within its unit
  Pointer member;                  // where the view has it
  Shape shape;                     // of the whole tensor
  TensorOption options;            // joined by |
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
  std::tuple<Fields...> fields;  // as zero::tensors was given them

  /// How many tensors.
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
template <class Kind, class T, class Field>
inline constexpr bool is_tensor_of = false;           // that Field is a member Tensor<T> of Kind
template <class Kind, class T, class Own, int Level>  // or one whose type is its own
inline constexpr bool is_tensor_of<Kind, T, Field<Kind, BasicTensor<Own, Level>>> =
    std::is_same_v<Own, T> || std::is_same_v<Own, float> || std::is_same_v<Own, bf16> ||
    std::is_same_v<Own, fp16>;
template <class Kind, class T, class List>
inline constexpr bool declares = false;
template <class Kind, class T, class... Fields>
inline constexpr bool declares<Kind, T, FieldList<Fields...>> = (true && ... &&
                                                                 is_tensor_of<Kind, T, Fields>);

/// The highest check level of the members that a list declares.
template <class List>
inline constexpr int check_level_of = 1;
template <class... Kinds, class... Types, int... Levels>
inline constexpr int check_level_of<FieldList<Field<Kinds, BasicTensor<Types, Levels>>...>> = [] {
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
/// of its own members, each a zero::Tensor of that element type, or of float, bf16 or fp16: such a
/// tensor keeps its type whatever that of the others is.
template <template <class> class Kind, class Config, class T = float>
concept UnitKind = detail::HasTensors<Kind, Config, T> && requires(const Config& config) {
  requires detail::declares < Kind<T>, T,
  decltype(Kind<T>::tensors(config)) > ;
};

namespace detail {
template <class... Kinds, class... Types, int... Levels>
consteval std::array<DataType, sizeof...(Types)> types_in(
    const FieldList<Field<Kinds, BasicTensor<Types, Levels>>...>*) {
  return {data_type<Types>...};
}
/// The types of the tensors that Kind<T> declares; none if it declares them wrongly.
template <template <class> class Kind, class Config, class T>
consteval auto types_of() {
  if constexpr (UnitKind<Kind, Config, T>) {
    using List = decltype(Kind<T>::tensors(std::declval<const Config&>()));
    return types_in(static_cast<const List*>(nullptr));
  } else {
    return std::array<DataType, 0>{};
  }
}

/// Kind<T>::tensors(config), or one sentence about what is wrong with the kind and no tensors.
template <template <class> class Kind, class T, class Config>
constexpr auto fields_of(const Config& config) {
  constexpr bool has_tensors = HasTensors<Kind, Config, T>;
  if constexpr (UnitKind<Kind, Config, T>) {
    return Kind<T>::tensors(config);
  } else {
    static_assert(has_tensors,
                  "zero: this unit kind has no 'static constexpr auto tensors(const Config&)' for "
                  "the given configuration; declare its tensors there.");
    static_assert(!has_tensors,
                  "zero: tensors() of this unit kind must return zero::tensors(zero::tensor(name, "
                  "&Kind::member, {shape}), ...) of its own members of type zero::Tensor<T>, or "
                  "zero::Tensor<float> for one that stays fp32.");
    return FieldList<>{};
  }
}
}  // namespace detail

/// What a field says, without its member: for tables of tensors.
struct TensorSpec {
  std::string name;                    // within its unit
  Shape shape;                         // of the whole tensor
  bool decay = true;                   // whether weight decay applies
  bool frozen = false;                 // whether it has no gradient
  bool replicated = false;             // whether ranks of further axes hold the same
  std::optional<DataType> own_type{};  // of a tensor that keeps its type whatever T is
};

/// The tensors that Kind declares for `config`, in order.
///
/// Errors: ContractError for an empty name, a name given twice, or a member given twice.
template <template <class> class Kind, class Config>
List<TensorSpec> specs_of(const Config& config) {
  const auto list = detail::fields_of<Kind, float>(config);
  // What keeps its type while T becomes another has a type of its own.
  constexpr auto types = detail::types_of<Kind, Config, float>();
  constexpr auto others = detail::types_of<Kind, Config, bf16>();
  List<TensorSpec> specs;
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
    const std::size_t i = specs.size();
    TensorSpec& spec = specs.emplace_back();
    spec.name = field.name;
    spec.shape = field.shape;
    spec.decay = !has(field.options, TensorOption::no_decay);
    spec.frozen = has(field.options, TensorOption::frozen);
    spec.replicated = has(field.options, TensorOption::replicated);
    const bool keeps = types[i] != DataType::fp32 || (i < others.size() && others[i] == types[i]);
    if (keeps) spec.own_type = types[i];
  });
  return specs;
}

/// A view of one unit: the member of tensor i becomes a Tensor of pointer_of(i) and its shape, or
/// stays empty where the pointer is null. At check level 2 the tensors know the scope that `watch`
/// counts. Allocates nothing.
///
/// Pre:     pointer_of(i) converts, by a static_cast, to a pointer to elements of tensor i.
template <template <class> class Kind, class T, class Config, class PointerOf>
constexpr Kind<T> view_of(const Config& config, PointerOf pointer_of,
                          [[maybe_unused]] const ScopeWatch* watch = nullptr) {
  Kind<T> view{};
  std::size_t i = 0;
  detail::fields_of<Kind, T>(config).for_each([&](const auto& field) {
    using View = std::remove_reference_t<decltype(view.*field.member)>;
    const auto data = static_cast<decltype(View().data())>(pointer_of(i++));
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
