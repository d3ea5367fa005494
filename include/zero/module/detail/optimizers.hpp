// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Which optimizer updates which tensor of a module. May include optim/ and module/.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <zero/base/list.hpp>
#include <zero/module/control.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/optim/groups.hpp>
#include <zero/schedule/hash.hpp>

namespace zero::detail {

/// The optimizers of a module, found by tensor.
template <class Optimizer>
class Optimizers {
 public:
  /// Errors:  ContractError for settings that make no sense, or patterns that do not fit the names.
  Optimizers(Groups<Optimizer> groups, const ParameterTable& parameters)
      : groups_(std::move(groups)) {
    groups_.check();
    List<std::string> names;
    for (const TensorInfo& tensor : parameters.tensors()) {
      names.push_back(tensor.name);
      names_.push_back(Hasher().mix(tensor.name).value());
    }
    group_of_ = groups_.of(names);
    for (const std::size_t group : group_of_) assigned_.mix(std::uint64_t{group});
  }

  const Groups<Optimizer>& groups() const { return groups_; }
  const Optimizer& of(std::size_t tensor) const { return groups_[group_of_[tensor]]; }

  /// Writes what each tensor's next update will be done with, if the step is applied.
  void set_coefficients(Control& control, const ParameterTable& parameters,
                        const RandomBits& rounding) const {
    for (std::size_t t = 0; t < group_of_.size(); ++t) {
      const TensorInfo& tensor = parameters.tensors()[t];
      if (tensor.frozen) continue;
      const std::int64_t counter = control.counter(t) + 1;
      control.set_coefficients(t, of(t).coefficients(counter, control.step(), tensor.decay),
                               rounding.with(names_[t]).with(static_cast<std::uint64_t>(counter)));
    }
  }

  /// What ranks must have in common at a schedule position: which tensor is in which group, and the
  /// settings of each group then. Calls the functions among them.
  std::uint64_t settings(std::int64_t step) const {
    Hasher hasher = assigned_;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const typename Optimizer::Coefficients c = groups_[g].coefficients(1, step, true);
      const auto bytes = std::bit_cast<std::array<char, sizeof(c)>>(c);
      hasher.mix(std::string_view(bytes.data(), bytes.size()));
    }
    return hasher.value();
  }

 private:
  Groups<Optimizer> groups_;
  List<std::size_t> group_of_;  // [tensor]
  List<std::uint64_t> names_;   // [tensor] hashed
  Hasher assigned_;
};

}  // namespace zero::detail
