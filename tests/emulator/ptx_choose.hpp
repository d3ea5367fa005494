// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What an operation's name decides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ptx_opcode.hpp"
#include "ptx_warp.hpp"

namespace emulator::ptx {

/// Whether the first operand is a result; and the second.
bool has_result(const Opcode& opcode);
bool has_second_result(const Opcode& opcode, std::size_t operands);

/// Sets the handler of an instruction whose operands are set, and what that handler reads; false
/// if there is none.
bool choose_handler(const Opcode& opcode, Instruction& instruction);

/// The handler of what has none.
void fault_unknown(Warp& warp, const Instruction& i, Mask mask);

/// What a barrier makes of a predicate of all threads; its option.
struct Join {
  static constexpr unsigned none = 0, count = 1, all = 2, any = 3;
};

}  // namespace emulator::ptx
