// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How a module becomes one with other tensors frozen: what it keeps goes over name by name. May
// include module/.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/module/detail/kept_state.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/optim/groups.hpp>

namespace zero::detail {

/// Which tensors are frozen after those that match `pattern` are, or are thawed.
///
/// Errors:  ContractError if no name matches.
inline List<bool> refrozen(const ParameterTable& parameters, std::string_view pattern, bool fixed) {
  List<bool> all;
  bool any = false;
  for (const TensorInfo& tensor : parameters.tensors()) {
    const bool matches = zero::matches(pattern, tensor.name);
    any = any || matches;
    all.push_back(matches ? fixed : tensor.frozen);
  }
  if (any) return all;
  throw ContractError("zero: set_frozen: no tensor's name matches '" + std::string(pattern) +
                      "'; names are unit.tensor, and '*' stands for any text");
}

/// Whether a block of the caller's can take the place of another one.
inline void check_new_memory(std::span<const std::byte> old, std::span<const std::byte> memory) {
  if (old.empty() != memory.empty()) {
    throw ContractError(old.empty() ? "zero: set_frozen: this module's memory is its own; pass none"
                                    : "zero: set_frozen: this module's memory is the caller's; "
                                      "pass another block of bytes_if_frozen(...)");
  }
  if (!memory.empty() && memory.data() < old.data() + old.size() &&
      old.data() < memory.data() + memory.size()) {
    throw ContractError(
        "zero: set_frozen: the new block of memory overlaps with the old one; pass another one");
  }
}

template <class Engine>
typename Engine::Kept kept(Engine& engine) {
  return {engine.parameters(), engine.mesh(), engine.at_rest(), engine.schedules().training(),
          engine.streams()};
}
template <class Engine>
void clear_state(Engine& engine, const TensorInfo& tensor) {
  for (std::size_t k = 0; k != Engine::states && !tensor.frozen; ++k) {
    kept(engine).set_state(tensor, k, [](std::size_t) { return 0.0F; });
  }
}
/// Makes weights and states zero, but not what lies between them.
template <class Engine>
void clear(Engine& engine) {
  for (const TensorInfo& tensor : engine.parameters().tensors()) {
    kept(engine).set_weights(tensor, [](std::size_t) { return 0.0F; });
    clear_state(engine, tensor);
  }
}
/// Gives `to` the weights of `from`, and the states and counters of what both train. A collective.
template <class Engine>
void move_state(Engine& from, Engine& to) {
  List<float> whole;
  for (std::size_t t = 0; t < from.parameters().tensors().size(); ++t) {
    const TensorInfo& old = from.parameters().tensors()[t];
    const TensorInfo& made = to.parameters().tensors()[t];
    whole.resize(old.shape.elements());
    const auto value = [&](std::size_t i) { return whole[i]; };
    kept(from).read_weights(old, whole);
    kept(to).set_weights(made, value);
    clear_state(to, made);
    if (old.frozen || made.frozen) continue;
    for (std::size_t k = 0; k != Engine::states; ++k) {
      whole.resize(from.parameters().state_numbers(old, k));
      kept(from).read_state(old, k, whole);
      kept(to).set_state(made, k, value);
    }
    to.control().set_counter(t, from.control().counter(t));
  }
  to.control().set_step(from.control().step());
  to.control().set_loss_scale(from.control().loss_scale());
  to.go_on_after(from);
}

}  // namespace zero::detail
