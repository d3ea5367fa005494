// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The tensors that a unit's scope shows, as the user's own struct. May include module/.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <zero/base/array.hpp>
#include <zero/base/error.hpp>
#include <zero/layout/fields.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/schedule/step.hpp>

namespace zero::detail {

/// Calls f(config, unit) for the unit of kind `Kind` that the unit of a compute step is or reads;
/// `of` is its name, or empty for the first one.
template <template <class> class Kind, class Model, class F>
void with_kind(const Model& model, const ParameterTable& parameters, const Step& step,
               std::string_view of, F f) {
  static_assert(Model::template has_kind<Kind>,
                "zero: no unit of this model is of the kind whose tensors are asked for; ask for a "
                "kind that zero::model was given.");
  for (const std::size_t u : parameters.units()[step.subject].reads) {
    if (!of.empty() && parameters.units()[u].name != of) continue;
    if (model.template with_kind<Kind>(u, [&](const auto& config) { f(config, u); })) return;
  }
  throw ContractError("zero: unit '" + parameters.units()[step.subject].name +
                      "' was asked for tensors of a kind that it neither is nor reads" +
                      (of.empty() ? "" : " in a unit called '" + std::string(of) + "'") +
                      "; declare it with .reads(\"the other unit\"), or ask for its own kind");
}

/// Where a tensor lies; null for one that a view leaves empty.
struct Pointer {
  Array whole;
  std::size_t begin = 0;
  template <class Number>
  explicit operator Number*() const {
    return whole.data == nullptr ? nullptr : whole.as<Number>() + begin;
  }
};

/// A view of one unit's tensors; `whole(access, g)` is the buffer in which group g is whole,
/// `watch` counts the scopes of the step's unit.
template <template <class> class Kind, class Number, class Model, class Whole>
Kind<Number> unit_view(const Model& model, const ParameterTable& parameters, const Step& step,
                       std::string_view of, Space space, const ScopeWatch* watch, Whole whole) {
  Kind<Number> made{};
  with_kind<Kind>(model, parameters, step, of, [&](const auto& config, std::size_t u) {
    const std::size_t first = parameters.units()[u].first_tensor;
    const auto pointer_of = [&](std::size_t i) -> Pointer {
      const TensorInfo& tensor = parameters.tensors()[first + i];
      if (space == Space::grads_whole && tensor.frozen) return {};
      const Access* access = step.begin();  // the accesses to a space are those of its groups
      const auto find = [&] {
        while (access->space != space) ++access;
      };
      find();
      for (const Index g : parameters.shape().unit(step.subject)) {
        if (g == tensor.group) break;
        if (space == Space::grads_whole && parameters.groups()[g].frozen) continue;
        ++access;
        find();
      }
      const FlatLayout& layout = parameters.groups()[tensor.group].layout;
      return {whole(*access, tensor.group), layout.tensor_offset(tensor.place)};
    };
    made = view_of<Kind, Number>(config, pointer_of, watch);
  });
  return made;
}

}  // namespace zero::detail
