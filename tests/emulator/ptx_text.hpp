// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// PTX as it is written: modules, functions, statements and operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace emulator::ptx {

/// Where a variable lies, or an address leads.
enum class Space : std::uint8_t { generic, global, constant, shared, local, param };

struct Variable {
  std::string name;
  Space space = Space::generic;
  std::size_t alignment = 1, bytes = 0;
  std::vector<std::byte> initial = {};  // what follows is zero
};

using Register = std::uint32_t;

struct Operand {
  enum class Kind : std::uint8_t {
    none,       // `_`, which takes what nobody wants
    reg,        // a register
    immediate,  // a number
    symbol,     // name + value: a variable, special register, label or function
    address,    // [..]: of `reg` or `name` (or neither), plus `value`
    vector      // {..} or (..)
  };
  Kind kind = Kind::none;
  bool negated = false;  // !%p
  bool has_register = false;
  Register reg = 0;
  std::uint64_t value = 0;
  std::string name = {};
  std::vector<Operand> parts = {};
};

struct Statement {
  std::string opcode;  // "ld.global.f32"
  Operand guard = {};  // a register, or none
  std::vector<Operand> operands = {};
  std::string text = {};  // as it is written, on one line
};

struct Function {
  std::string name;
  bool is_kernel = false;
  std::vector<Variable> results = {}, parameters = {};
  std::vector<Variable> variables = {};  // of its own
  Register registers = 0;                // how many
  std::vector<Statement> body = {};
  std::map<std::string, std::size_t> labels = {};  // to the statement that follows
};

struct Module {
  std::map<std::string, Function> functions;
  std::vector<Variable> variables;
};

/// Errors:  std::runtime_error that quotes what was not understood.
Module parse(std::string text);

}  // namespace emulator::ptx
