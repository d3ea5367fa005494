// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A kernel made ready to run: every name resolved, every call put in place, one handler for each
// instruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ptx_text.hpp"

namespace emulator::ptx {

class Warp;
struct Instruction;
struct Execution;

/// Bit k stands for lane k of a warp.
using Mask = std::uint32_t;
inline constexpr unsigned warp_size = 32;

/// 64 bits for each lane: a register, a constant or a special register. A value of a narrow type
/// is extended as its type says, and read by its lowest bits. A predicate has its bit for each lane
/// in the first 32 bits.
using Row = std::uint32_t;

/// Does an instruction for the lanes of a mask, which is not empty.
using Handler = void (*)(Warp&, const Instruction&, Mask);

struct Instruction {
  /// What it does to the order in which lanes go on.
  enum class Flow : std::uint8_t {
    on,
    branch,
    exit,
    together,  // waits for the lanes of a mask, which is the last of `from`
    barrier    // waits for the threads of the block
  };
  Handler run = nullptr;
  Flow flow = Flow::on;
  bool has_guard = false;
  bool guard_negated = false;
  std::uint8_t negated = 0;  // bit k: from[k] is a negated predicate
  Row guard = 0;
  Row to[4] = {};
  Row from[5] = {};
  std::uint8_t results = 0, operands = 0;
  Space space = Space::generic;
  bool atomic = false, ordered = false;
  std::uint8_t option = 0;   // which kind of an operation
  std::int64_t offset = 0;   // of an address
  std::uint32_t target = 0;  // of a branch
  Handler inner = nullptr;   // of what is rounded otherwise or saturated
  const std::string* text = nullptr;
};

/// What a special register says to a thread.
using SpecialValue = std::uint64_t (*)(const Execution&, unsigned thread);
/// The special register of that name; null if there is none.
SpecialValue special_register(const std::string& name);

/// Puts a variable behind `end`, which then is its end; says where it lies.
std::size_t place_behind(std::size_t& end, const Variable& variable);

/// A module and the memory of its variables.
struct Loaded {
  Module module;
  std::map<std::string, std::size_t> offsets = {};  // of variables, in the memory
  std::vector<std::uint64_t> memory = {};

  explicit Loaded(Module of);
  std::byte* begin() { return reinterpret_cast<std::byte*>(memory.data()); }
  std::size_t bytes() const { return memory.size() * sizeof(std::uint64_t); }
};

struct Program {
  struct Constant {
    Row row;
    std::uint64_t value;
  };
  struct Special {
    Row row;
    SpecialValue value;
  };
  struct Parameter {
    std::size_t offset, bytes;
  };
  std::shared_ptr<Loaded> loaded;  // which has the texts
  std::string kernel;              // as in C++
  std::vector<Instruction> code = {};
  Row rows = 0;
  std::vector<Constant> constants = {};
  std::vector<Special> specials = {};
  std::vector<Parameter> parameters = {};
  std::size_t parameter_bytes = 0;
  std::size_t shared_bytes = 0;  // without what a launch adds
  std::size_t local_bytes = 0;   // of each thread
};

/// Errors:  std::runtime_error, for a kernel that is not there and for what cannot be resolved. An
///          instruction that is not known is an error when a thread reaches it.
Program decode(std::shared_ptr<Loaded> loaded, const std::string& kernel);

}  // namespace emulator::ptx
