// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <algorithm>
#include <cstring>
#include <utility>

#include "ptx_program.hpp"

namespace emulator::ptx {

std::size_t place_behind(std::size_t& end, const Variable& variable) {
  const std::size_t at = (end + variable.alignment - 1) / variable.alignment * variable.alignment;
  end = at + variable.bytes;
  return at;
}

Loaded::Loaded(Module of) : module(std::move(of)) {
  std::size_t end = 0;
  const auto lies_here = [](const Variable& v) {
    return v.space == Space::global || v.space == Space::constant;
  };
  for (const Variable& variable : module.variables) {
    if (lies_here(variable)) offsets[variable.name] = place_behind(end, variable);
  }
  memory.resize((end + 7) / 8);
  for (const Variable& variable : module.variables) {
    if (!lies_here(variable) || variable.initial.empty()) continue;
    std::memcpy(begin() + offsets[variable.name], variable.initial.data(),
                std::min(variable.initial.size(), variable.bytes));
  }
}

}  // namespace emulator::ptx
