// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "ptx_choose.hpp"
#include "ptx_memory.hpp"
#include "ptx_opcode.hpp"
#include "ptx_program.hpp"

namespace emulator::ptx {

namespace {

using OperandKind = Operand::Kind;
using Flow = Instruction::Flow;

std::size_t round_up(std::size_t size, std::size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}
std::string readable(const std::string& name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string made = text == nullptr ? name : text;
  std::free(text);
  return made;
}

/// Where a variable lies in its space.
struct Place {
  Space space;
  std::uint64_t offset;
};

class Decoder {
 public:
  Decoder(Program& program) : program_(program), module_(program.loaded->module) {}

  void kernel(const Function& function) {
    Frame frame{function, 0};
    for (const Variable& parameter : function.parameters) {
      const std::size_t at = place_behind(program_.parameter_bytes, parameter);
      program_.parameters.push_back({at, parameter.bytes});
      frame.places[parameter.name] = {Space::param, at};
    }
    body(frame);
    Instruction end;
    end.flow = Flow::exit;
    end.text = &end_of_kernel;
    program_.code.push_back(end);
    program_.shared_bytes = round_up(program_.shared_bytes, 16);
    // Memory that the launch asks for begins behind all else.
    for (const auto& [row, value] : dynamic_shared_) {
      program_.constants.push_back({row, program_.shared_bytes + value});
    }
    program_.local_bytes = round_up(program_.local_bytes, 16);
  }

 private:
  /// A function that is being put in place.
  struct Frame {
    const Function& function;
    Row registers;  // the row of register 0
    std::map<std::string, Place> places = {};
    std::vector<std::pair<std::size_t, std::size_t>> jumps = {};  // instruction, statement
  };

  /// Appends a function's instructions; at its end control falls through.
  void body(Frame& frame) {
    const Function& f = frame.function;
    frame.registers = program_.rows;
    program_.rows += f.registers;
    for (const Variable& variable : f.variables) place(frame, variable);
    std::vector<std::size_t> begins;
    calls_.insert(&f);
    for (const Statement& statement : f.body) {
      begins.push_back(program_.code.size());
      append(frame, statement);
    }
    calls_.erase(&f);
    begins.push_back(program_.code.size());
    for (const auto& [from, to] : frame.jumps) {
      program_.code[from].target = static_cast<std::uint32_t>(begins[to]);
    }
  }
  void place(Frame& frame, const Variable& variable) {
    if (variable.space == Space::shared) {
      frame.places[variable.name] = shared_place(variable);
    } else {  // also what is passed to a function and comes back
      frame.places[variable.name] = {Space::local, place_behind(program_.local_bytes, variable)};
    }
  }
  Place shared_place(const Variable& variable) {
    return {Space::shared, place_behind(program_.shared_bytes, variable)};
  }

  void append(Frame& frame, const Statement& statement) {
    const Opcode opcode(statement.opcode);
    constexpr const char* without_effect[] = {"membar",         "fence",        "prefetch",
                                              "prefetchu",      "nanosleep",    "discard",
                                              "griddepcontrol", "applypriority"};
    for (const char* const name : without_effect) {
      if (opcode.name == name) return;
    }
    Instruction made;
    made.text = &statement.text;
    if (statement.guard.kind == OperandKind::reg) {
      made.has_guard = true;
      made.guard_negated = statement.guard.negated;
      made.guard = frame.registers + statement.guard.reg;
    }
    if (opcode.name == "call") return call(frame, statement, made);
    if (opcode.name == "ret" && !frame.function.is_kernel) {
      return jump(frame, made, frame.function.body.size());
    }
    if (opcode.name == "bra") {
      const auto label = frame.function.labels.find(statement.operands.at(0).name);
      if (label == frame.function.labels.end()) {
        throw std::runtime_error("PTX: no label for `" + statement.text + "`");
      }
      return jump(frame, made, label->second);
    }
    if (opcode.name == "ret" || opcode.name == "exit") {
      made.flow = Flow::exit;
    } else {
      operands(frame, statement, opcode, made);
      if (!choose_handler(opcode, made)) made.flow = Flow::on, made.run = fault_unknown;
    }
    program_.code.push_back(made);
  }
  void jump(Frame& frame, Instruction made, std::size_t statement) {
    made.flow = Flow::branch;
    frame.jumps.emplace_back(program_.code.size(), statement);
    program_.code.push_back(made);
  }

  /// Puts the function in the place of its call.
  void call(Frame& frame, const Statement& statement, Instruction made) {
    const auto is_name = [](const Operand& o) { return o.kind == OperandKind::symbol; };
    const auto& all = statement.operands;
    const auto name = std::find_if(all.begin(), all.end(), is_name);
    const auto callee =
        name == all.end() ? module_.functions.end() : module_.functions.find(name->name);
    if (callee == module_.functions.end() || callee->second.body.empty() ||
        calls_.count(&callee->second) != 0) {
      made.run = fault_unknown;
      program_.code.push_back(made);
      return;
    }
    const std::size_t skip = program_.code.size();
    if (made.has_guard) {
      made.flow = Flow::branch;
      made.guard_negated = !made.guard_negated;
      program_.code.push_back(made);
    }
    Frame inner{callee->second, 0};
    const auto bind = [&](const std::vector<Variable>& formal, const Operand& actual) {
      for (std::size_t k = 0; k < formal.size(); ++k) {
        inner.places[formal[k].name] = frame.places.at(actual.parts.at(k).name);
      }
    };
    if (name != all.begin()) bind(callee->second.results, all.front());
    if (name + 1 != all.end()) bind(callee->second.parameters, *(name + 1));
    body(inner);
    if (made.has_guard)
      program_.code[skip].target = static_cast<std::uint32_t>(program_.code.size());
  }

  void operands(Frame& frame, const Statement& statement, const Opcode& opcode, Instruction& made) {
    made.space = space_of(opcode);
    const auto& all = statement.operands;
    std::size_t results = has_result(opcode) ? 1 : 0;
    if (results == 1 && has_second_result(opcode, all.size())) results = 2;
    for (std::size_t k = 0; k < all.size(); ++k) {
      const bool spreads = all[k].kind == OperandKind::vector;
      const std::size_t parts = spreads ? all[k].parts.size() : 1;
      for (std::size_t p = 0; p < parts; ++p) {
        const Operand& operand = spreads ? all[k].parts[p] : all[k];
        const std::size_t used = k < results ? made.results : made.operands;
        if (used == (k < results ? std::size(made.to) : std::size(made.from))) {
          throw std::runtime_error("PTX: too many operands in `" + statement.text + "`");
        }
        if (k < results) {
          made.to[made.results++] =
              operand.kind == OperandKind::none ? unwanted() : frame.registers + operand.reg;
        } else {
          if (operand.negated) made.negated |= static_cast<std::uint8_t>(1U << made.operands);
          made.from[made.operands++] = source(frame, operand, made);
        }
      }
    }
  }
  Row source(Frame& frame, const Operand& operand, Instruction& made) {
    if (operand.kind == OperandKind::address)
      made.offset = static_cast<std::int64_t>(operand.value);
    if (operand.has_register) return frame.registers + operand.reg;
    if (operand.name.empty()) {
      const bool is_address = operand.kind == OperandKind::address;  // of a number alone
      return constant(is_address ? 0 : operand.value);
    }
    if (operand.name[0] == '%') return special(operand.name);
    const std::uint64_t beyond = operand.kind == OperandKind::address ? 0 : operand.value;
    if (is_dynamic(operand.name)) {
      dynamic_shared_.emplace_back(program_.rows, beyond);
      return program_.rows++;
    }
    const Place found = find(frame, operand.name);
    // What a function calls its parameters lies in local memory here.
    if (operand.kind == OperandKind::address && made.space == Space::param)
      made.space = found.space;
    return constant(found.offset + beyond);
  }
  Place find(Frame& frame, const std::string& name) {
    if (const auto at = frame.places.find(name); at != frame.places.end()) return at->second;
    if (const auto at = module_shared_.find(name); at != module_shared_.end()) return at->second;
    for (const Variable& variable : module_.variables) {
      if (variable.name != name) continue;
      if (variable.space == Space::shared) return module_shared_[name] = shared_place(variable);
      Loaded& loaded = *program_.loaded;
      return {variable.space,
              reinterpret_cast<std::uintptr_t>(loaded.begin()) + loaded.offsets.at(name)};
    }
    throw std::runtime_error("PTX: nothing is called '" + name + "' in kernel " + program_.kernel);
  }
  /// Whether it stands for the shared memory that a launch asks for.
  bool is_dynamic(const std::string& name) const {
    for (const Variable& variable : module_.variables) {
      if (variable.name == name && variable.space == Space::shared && variable.bytes == 0) {
        return true;
      }
    }
    return false;
  }

  Row constant(std::uint64_t value) {
    const auto [at, is_new] = constants_.try_emplace(value, program_.rows);
    if (is_new) program_.constants.push_back({program_.rows++, value});
    return at->second;
  }
  Row special(const std::string& name) {
    const SpecialValue value = special_register(name);
    if (value == nullptr) throw std::runtime_error("PTX: unknown special register " + name);
    const auto [at, is_new] = specials_.try_emplace(name, program_.rows);
    if (is_new) program_.specials.push_back({program_.rows++, value});
    return at->second;
  }
  Row unwanted() {
    if (!unwanted_) unwanted_ = program_.rows++;
    return *unwanted_;
  }

  inline static const std::string end_of_kernel = "the end of the kernel";

  Program& program_;
  const Module& module_;
  std::set<const Function*> calls_ = {};  // that are being put in place
  std::map<std::string, Place> module_shared_ = {};
  std::vector<std::pair<Row, std::uint64_t>> dynamic_shared_ = {};
  std::map<std::uint64_t, Row> constants_ = {};
  std::map<std::string, Row> specials_ = {};
  std::optional<Row> unwanted_ = {};
};

}  // namespace

Program decode(std::shared_ptr<Loaded> loaded, const std::string& kernel) {
  const auto function = loaded->module.functions.find(kernel);
  if (function == loaded->module.functions.end()) {
    throw std::runtime_error("PTX: no kernel " + readable(kernel));
  }
  Program made{loaded, readable(kernel)};
  Decoder(made).kernel(function->second);
  return made;
}

}  // namespace emulator::ptx
