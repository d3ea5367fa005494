// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What a module makes of Control: its size for a mesh, and the errors of its decision. May include
// anything below module/.
#pragma once
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <zero/base/array.hpp>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/control.hpp>
#include <zero/module/detail/on_device.hpp>
#include <zero/module/options.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/schedule/step.hpp>

namespace zero::detail {

template <class Optimizer>
ControlShape control_shape(const ParameterTable& parameters, std::size_t world_size,
                           const ModuleOptions& options, List<std::size_t> axes = {}) {
  return {.units = parameters.units().size(),
          .tensors = parameters.tensors().size(),
          .ranks = world_size,
          .norm = options.norm,
          .axes = std::move(axes),
          .groups = parameters.groups().size(),
          .coefficient_bytes = sizeof(typename Optimizer::Coefficients)};
}
template <class Optimizer, class Comm>
ControlShape control_shape(const ParameterTable& parameters, const Mesh<Comm>& mesh,
                           const ModuleOptions& options) {
  List<std::size_t> axes;
  for (const Comm& axis : mesh.axes) axes.push_back(axis.size());
  ControlShape shape =
      control_shape<Optimizer>(parameters, mesh.world.size(), options, std::move(axes));
  shape.scratch = OnDevice<typename Comm::Stream>::scratch;
  return shape;
}

/// Tells Control where the tensors lie: for what walks over a group without its layout. What is
/// replicated along further axes counts in the norm on their first ranks only.
template <class Streams>
void list_ranges(Control& control, const ParameterTable& parameters, bool first_of_axes,
                 Streams& streams) {
  for (const GroupInfo& group : parameters.groups()) {
    for (std::size_t place = 0; place < group.tensors.size(); ++place) {
      const std::size_t tensor = group.tensors[place];
      const bool counts = !parameters.tensors()[tensor].replicated || first_of_axes;
      control.add_range({group.layout.tensor_offset(place), group.layout.tensor_size(place),
                         static_cast<std::uint32_t>(tensor), counts ? 1U : 0U},
                        place == 0);
    }
  }
  const auto floats = [](std::byte* data, const ControlView& view) {
    return Array(data, view.mirrored_bytes() / sizeof(float), DataType::fp32);
  };
  const Array staged = floats(control.staged_bytes(), control.live());
  streams.write(floats(control.live_bytes(), control.live()),
                [&](const Array& part, std::size_t begin) {
                  std::memcpy(part.data, staged.part(begin, part.count).data, part.bytes());
                });
}

/// Throws if a unit cannot be entered now.
inline void check_entry(const ParameterTable& parameters, std::size_t unit, bool idle,
                        const Step* inside) {
  const List<UnitInfo>& units = parameters.units();
  if (unit >= units.size()) {
    throw ContractError("zero: unit " + std::to_string(unit) + " was entered, but the model has " +
                        std::to_string(units.size()) + " units");
  }
  if (idle) {
    throw ContractError("zero: unit '" + units[unit].name +
                        "' was used outside a step; call begin_step");
  }
  if (inside == nullptr) return;
  throw ContractError("zero: unit '" + units[unit].name + "' was entered while unit '" +
                      units[inside->subject].name + "' is in use; end its scope first");
}

/// Throws, on every rank alike, what a step was not applied for; a step that was skipped is no
/// error.
inline void check_decision(const Control& control, const ParameterTable& parameters,
                           std::size_t rank) {
  if (!control.at_floor() && control.agreed()) return;
  const std::string where = " (this is rank " + std::to_string(rank) + ")";
  if (control.at_floor()) {
    throw OverflowError(
        "zero: finish: a gradient is not finite, though the loss scale is at its floor of " +
        std::to_string(control.used_scale()) +
        "; nothing was changed. Look for what overflows, such as a learning rate that is too "
        "large, or lower LossScale::floor" +
        where);
  }
  if (!control.world_differs()) {
    throw ContractError(
        "zero: finish: ranks along a further axis of the mesh passed different FinishOptions, have "
        "another norm or loss scale, are at different steps, or got an error of their own; nothing "
        "was updated. Pass the same on all ranks" +
        where);
  }
  if (control.options_differ()) {
    throw ContractError(
        "zero: finish: the ranks passed different FinishOptions, have another norm or loss scale, "
        "or are at different steps after set_step; nothing was updated. Pass the same on all "
        "ranks" +
        where);
  }
  if (control.optimizers_differ()) {
    throw ContractError(
        "zero: finish: the ranks have optimizers with different settings at step " +
        std::to_string(control.step()) +
        ", such as their learning rates, or groups of other tensors; nothing was updated. Give all "
        "ranks the same" +
        where);
  }
  throw ContractError("zero: finish: some ranks ran unit '" +
                      parameters.units()[control.disagreeing_unit()].name + "' " +
                      info(control.disagreeing_op()).name +
                      " in other micro-steps of this step than other ranks did; nothing was "
                      "updated. Run the same units on all ranks; a unit whose gradient is zero on "
                      "one rank still runs there" +
                      where);
}

[[noreturn]] inline void throw_exchanged(const char* call) {
  throw ContractError(std::string("zero: ") + call +
                      " was called while the weights are exchanged with their average; call "
                      "exchange_average() again first");
}

}  // namespace zero::detail
