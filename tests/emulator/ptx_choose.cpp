// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Which handler does an instruction, and which of its operands are results.
#include "ptx_choose.hpp"

#include <cfenv>
#include <iterator>

#include "ptx_format.hpp"

namespace emulator::ptx {

namespace {

using Flow = Instruction::Flow;

bool is_barrier(const Opcode& opcode) {
  return opcode.name == "barrier" || (opcode.name == "bar" && !opcode.has("warp"));
}

void trap(Warp& warp, const Instruction& i, Mask mask) {
  warp.fault(i, static_cast<unsigned>(__builtin_ctz(mask)), cudaErrorLaunchFailure,
             "the kernel stops itself");
}

// What an instruction on floats does beside its arithmetic; in the option.
constexpr unsigned rounds = 3, saturates = 4, is_double = 8;
constexpr int rounding_modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

template <class Format>
void saturate(Warp& warp, const Instruction& i, Mask mask) {
  std::uint64_t* const to = warp.row(i.to[0]);
  for_lanes(mask, [=](unsigned k) {
    const auto x = Format::get(to[k]);
    to[k] = Format::put(x > 1 ? 1 : x > 0 ? x : 0);
  });
}
void run_modified(Warp& warp, const Instruction& i, Mask mask) {
  const int before = std::fegetround();
  std::fesetround(rounding_modes[i.option & rounds]);
  i.inner(warp, i, mask);
  std::fesetround(before);
  if ((i.option & saturates) == 0) return;
  (i.option & is_double) != 0 ? saturate<F64>(warp, i, mask) : saturate<F32>(warp, i, mask);
}
/// Arithmetic with what its modifiers ask for; null if that is not known.
Handler modified(const Opcode& opcode, Instruction& instruction) {
  const Handler plain = arithmetic(opcode);
  const Type type = opcode.type();
  unsigned option = opcode.has("sat") ? saturates : 0;
  for (unsigned k = 1; k < 4; ++k) {
    constexpr const char* names[] = {"", "rz", "rm", "rp"};
    if (opcode.has(names[k])) option |= k;
  }
  if (plain == nullptr || option == 0) return plain;
  if (type != Type::f32 && type != Type::f64) return nullptr;
  instruction.option = static_cast<std::uint8_t>(option | (type == Type::f64 ? is_double : 0));
  instruction.inner = plain;
  return run_modified;
}

bool barrier(const Opcode& opcode, Instruction& instruction) {
  const bool reduces = opcode.has("red");
  if (!reduces && !opcode.has("sync")) return false;
  instruction.flow = Flow::barrier;
  instruction.option = static_cast<std::uint8_t>(!reduces             ? Join::none
                                                 : opcode.has("popc") ? Join::count
                                                 : opcode.has("and")  ? Join::all
                                                                      : Join::any);
  return true;
}

}  // namespace

void fault_unknown(Warp& warp, const Instruction& i, Mask mask) {
  warp.fault(
      i, static_cast<unsigned>(__builtin_ctz(mask)), cudaErrorIllegalInstruction,
      "the interpreter does not know this instruction; teach it in tests/emulator/ptx_*.cpp");
}

bool has_result(const Opcode& opcode) {
  if (is_barrier(opcode)) return opcode.has("red");
  constexpr const char* without[] = {"st", "red", "bar", "trap", "brkpt"};
  return std::find(std::begin(without), std::end(without), opcode.name) == std::end(without);
}

bool has_second_result(const Opcode& opcode, std::size_t operands) {
  if (opcode.name == "shfl") return operands == 6;
  if (opcode.name == "match") return operands == 4;
  if (opcode.name == "elect") return operands == 3;
  if (opcode.name != "setp") return false;
  const bool joins = opcode.has("and") || opcode.has("or") || opcode.has("xor");
  return operands == (joins ? 5 : 4);
}

bool choose_handler(const Opcode& opcode, Instruction& instruction) {
  if (is_barrier(opcode)) return barrier(opcode, instruction);
  if (opcode.name == "trap") {
    instruction.run = trap;
    return true;
  }
  for (const auto find : {logic, comparison, conversion, memory, atomics, warp_wide, modified}) {
    instruction.run = find(opcode, instruction);
    if (instruction.run != nullptr) return true;
  }
  return false;
}

}  // namespace emulator::ptx
