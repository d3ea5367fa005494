// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include "ptx_text.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "ptx_tokens.hpp"

namespace emulator::ptx {

namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Bytes of a type such as ".f32"; 0 for what is no type.
std::size_t type_bytes(std::string_view type) {
  if (type == ".pred") return 1;
  if (type == ".f16x2" || type == ".bf16x2") return 4;
  if (type == ".bf16") return 2;
  if (type.size() < 3 || std::strchr("bsuf", type[1]) == nullptr) return 0;
  std::size_t bits = 0;
  for (const char digit : type.substr(2)) {
    if (std::isdigit(static_cast<unsigned char>(digit)) == 0) return 0;
    bits = bits * 10 + static_cast<std::size_t>(digit - '0');
  }
  return bits / 8;
}

Space space_of(std::string_view word) {
  if (word == ".global") return Space::global;
  if (word == ".const") return Space::constant;
  if (word == ".shared") return Space::shared;
  if (word == ".local") return Space::local;
  if (word == ".param") return Space::param;
  return Space::generic;
}

class Parser {
 public:
  explicit Parser(const std::string& text) : tokens_(text) {}

  Module module() {
    Module made;
    while (!tokens_.at_end()) {
      if (is_one_of(tokens_.peek(), {".version", ".address_size"})) {
        tokens_.next();
        tokens_.next();
      } else if (tokens_.accept(".target")) {
        do tokens_.next();
        while (tokens_.accept(","));
      } else if (is_one_of(tokens_.peek(), {".visible", ".weak", ".extern", ".common"})) {
        tokens_.next();
      } else if (is_one_of(tokens_.peek(), {".entry", ".func"})) {
        Function made_function = function();
        // A declaration does not replace what has a body.
        if (!made_function.body.empty() || made.functions.count(made_function.name) == 0) {
          made.functions[made_function.name] = std::move(made_function);
        }
      } else if (space_of(tokens_.peek()) != Space::generic) {
        made.variables.push_back(variable());
        tokens_.expect(";");
      } else if (is_one_of(tokens_.peek(), {".pragma", ".alias"})) {
        tokens_.skip_to(";");
      } else if (tokens_.accept(".section")) {
        tokens_.skip_to("}");
      } else {
        tokens_.fail("a directive");
      }
    }
    return made;
  }

 private:
  Function function() {
    Function made;
    made.is_kernel = tokens_.next() == ".entry";
    if (tokens_.peek() == "(") made.results = parameters();
    made.name = tokens_.next();
    if (tokens_.peek() == "(") made.parameters = parameters();
    while (tokens_.peek() != "{" && tokens_.peek() != ";") tokens_.next();
    if (tokens_.accept(";")) return made;
    into_ = &made;
    scopes_.clear();
    body();
    return made;
  }
  std::vector<Variable> parameters() {
    std::vector<Variable> made;
    tokens_.expect("(");
    while (!tokens_.accept(")")) {
      made.push_back(variable());
      tokens_.accept(",");
    }
    return made;
  }
  /// .space .align 8 .b8 name[24] = {..}
  Variable variable() {
    Variable made;
    std::size_t element = 0, width = 1;
    bool of_pointee = false;
    while (tokens_.peek()[0] == '.') {
      const std::string_view word = tokens_.next();
      if (word == ".ptr") of_pointee = true;
      if (word == ".v2" || word == ".v4") width = word == ".v2" ? 2 : 4;
      if (word == ".align") {
        const std::uint64_t alignment = tokens_.number();
        if (!of_pointee) made.alignment = alignment;
      }
      if (!of_pointee && space_of(word) != Space::generic) made.space = space_of(word);
      if (element == 0) element = type_bytes(word);
    }
    made.name = tokens_.next();
    std::size_t count = width;
    while (tokens_.accept("[")) {
      count *= tokens_.peek() == "]" ? 0 : tokens_.number();
      tokens_.expect("]");
    }
    made.bytes = element * count;
    made.alignment = std::max(made.alignment, element);
    if (tokens_.accept("=")) initial(made, element);
    return made;
  }
  void initial(Variable& of, std::size_t element) {
    if (tokens_.accept("{")) {
      while (!tokens_.accept("}")) {
        initial(of, element);
        tokens_.accept(",");
      }
      return;
    }
    const std::uint64_t value = tokens_.number();
    std::byte bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    of.initial.insert(of.initial.end(), bytes, bytes + element);
  }

  void body() {
    do {
      const std::string_view word = tokens_.peek();
      if (tokens_.accept("{")) {
        scopes_.emplace_back();
      } else if (tokens_.accept("}")) {
        scopes_.pop_back();
      } else if (tokens_.accept(".reg")) {
        registers();
      } else if (space_of(word) != Space::generic) {
        Variable made = variable();
        tokens_.expect(";");
        std::string& name = scopes_.back().variables[made.name];
        name = made.name + "@" + std::to_string(scope_number_++);
        made.name = name;
        into_->variables.push_back(std::move(made));
      } else if (word[0] == '.') {
        tokens_.skip_to(";");
      } else if (tokens_.peek(1) == ":") {
        into_->labels[std::string(tokens_.next())] = into_->body.size();
        tokens_.next();
        if (tokens_.peek() == ".callprototype") tokens_.skip_to(";");
      } else {
        into_->body.push_back(statement());
      }
    } while (!scopes_.empty());
  }
  /// .reg .b32 %r<100>, %other;
  void registers() {
    while (tokens_.peek()[0] == '.') tokens_.next();
    do {
      const std::string name(tokens_.next());
      if (tokens_.accept("<")) {
        tokens_.number();
        tokens_.expect(">");
        scopes_.back().families.push_back(name);
      } else {
        scopes_.back().registers[name] = into_->registers++;
      }
    } while (tokens_.accept(","));
    tokens_.expect(";");
  }

  Statement statement() {
    const std::size_t begin = tokens_.position();
    Statement made;
    if (tokens_.accept("@")) made.guard = operand();
    made.opcode = tokens_.next();
    while (!tokens_.accept(";")) {
      made.operands.push_back(operand());
      if (tokens_.accept("|")) made.operands.push_back(operand());
      tokens_.accept(",");
    }
    made.text = tokens_.text_from(begin);
    return made;
  }
  Operand operand() {
    Operand made;
    if (tokens_.accept("!")) {
      made = operand();
      made.negated = !made.negated;
      return made;
    }
    for (const auto& [open, close] : {std::pair{"{", "}"}, {"(", ")"}}) {
      if (!tokens_.accept(open)) continue;
      made.kind = Operand::Kind::vector;
      while (!tokens_.accept(close)) {
        made.parts.push_back(operand());
        tokens_.accept(",");
      }
      return made;
    }
    if (tokens_.accept("[")) {
      made = operand();
      made.kind = Operand::Kind::address;
      tokens_.expect("]");
      return made;
    }
    const std::string_view word = tokens_.peek();
    if (word == "-" || std::isdigit(static_cast<unsigned char>(word[0])) != 0) {
      made.kind = Operand::Kind::immediate;
      made.value = tokens_.number();
      return made;
    }
    const std::string name(tokens_.next());
    if (name == "_") return made;
    made.has_register = find_register(name, made.reg);
    made.kind = made.has_register ? Operand::Kind::reg : Operand::Kind::symbol;
    if (!made.has_register) made.name = scoped(name);
    if (tokens_.accept("+")) made.value = tokens_.number();
    return made;
  }
  bool find_register(const std::string& name, Register& found) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto at = scope->registers.find(name); at != scope->registers.end()) {
        found = at->second;
        return true;
      }
      const std::size_t digits = name.find_last_not_of("0123456789") + 1;
      const bool numbered =
          digits < name.size() && std::find(scope->families.begin(), scope->families.end(),
                                            name.substr(0, digits)) != scope->families.end();
      if (!numbered) continue;
      found = scope->registers[name] = into_->registers++;
      return true;
    }
    return false;
  }
  /// The name of its own that a variable of a scope has.
  std::string scoped(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto at = scope->variables.find(name);
      if (at != scope->variables.end()) return at->second;
    }
    return name;
  }

  struct Scope {
    std::map<std::string, Register> registers = {};
    std::vector<std::string> families = {};  // %r of %r<100>
    std::map<std::string, std::string> variables = {};
  };

  Tokens tokens_;
  Function* into_ = nullptr;
  std::vector<Scope> scopes_ = {};
  std::size_t scope_number_ = 0;
};

}  // namespace

Module parse(std::string text) {
  blank_comments(text);
  return Parser(text).module();
}

}  // namespace emulator::ptx
