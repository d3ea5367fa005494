// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The parts of an operation's name, and the handlers that do it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ptx_program.hpp"

namespace emulator::ptx {

enum class Type : std::uint8_t {
  none,
  pred,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  bf16,
  f16x2,
  bf16x2,
  f32,
  f64
};

/// "ld.global.v4.f32": name ld, modifiers global and v4, types f32.
struct Opcode {
  std::string name;
  std::vector<std::string> modifiers = {};
  std::vector<Type> types = {};  // untyped bits count as unsigned

  explicit Opcode(const std::string& text);
  bool has(std::string_view modifier) const {
    return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
  }
  /// The last type: that of an operation on values of one type.
  Type type() const { return types.empty() ? Type::none : types.back(); }
};

/// What each of these looks up: the handler of an operation, or null if it is none of its own.
/// Sets what the handler reads of the instruction beside rows.
Handler arithmetic(const Opcode& opcode);
Handler logic(const Opcode& opcode, Instruction& instruction);
Handler comparison(const Opcode& opcode, Instruction& instruction);
Handler conversion(const Opcode& opcode, Instruction& instruction);
Handler memory(const Opcode& opcode, Instruction& instruction);
Handler atomics(const Opcode& opcode, Instruction& instruction);
Handler warp_wide(const Opcode& opcode, Instruction& instruction);

}  // namespace emulator::ptx
