// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Models by dimensions, from the command line or a small JSON file. Includes zero/plan.
#pragma once

#include <charconv>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <zero/plan/models.hpp>

namespace zero_plan {

/// What was asked for cannot be done; the text is one sentence. The program prints it and exits
/// with 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The whole of `text` as a number in a range, or a UsageError.
template <class Number>
Number parse_number(const std::string& what, std::string_view text, Number least, Number most) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value >= least && value <= most)
    return value;
  std::ostringstream range;
  range << what << " takes a " << (Number(1) / Number(2) == 0 ? "whole number" : "number")
        << " from " << least << " to " << most << ", not '" << text << "'.";
  throw UsageError(range.str());
}
inline bool parse_yes(const std::string& what, std::string_view text) {
  if (text == "yes" || text == "true") return true;
  if (text == "no" || text == "false") return false;
  throw UsageError(what + " takes yes or no, not '" + std::string(text) + "'.");
}

/// What a model by dimensions has unless it says otherwise; what it must say is 0.
inline constexpr zero::plan::Transformer usual_dimensions{
    .layers = 0, .width = 0, .heads = 0, .vocabulary = 50257, .context = 2048};

namespace detail {
struct Dimension {
  std::string_view name;
  std::size_t zero::plan::Transformer::*member;
  std::size_t most;
  std::string_view meaning;
};
inline constexpr Dimension dimensions[] = {
    {"layers", &zero::plan::Transformer::layers, 4096, "blocks"},
    {"width", &zero::plan::Transformer::width, 1 << 20, "size of the residual stream"},
    {"heads", &zero::plan::Transformer::heads, 1 << 14, "attention heads"},
    {"kv-heads", &zero::plan::Transformer::key_value_heads, 1 << 14, "of keys and values"},
    {"inner", &zero::plan::Transformer::inner, 1 << 22, "width of the feed-forward part"},
    {"vocabulary", &zero::plan::Transformer::vocabulary, 1 << 24, "tokens that there are (50257)"},
    {"context", &zero::plan::Transformer::context, 1 << 24, "tokens of a sequence (2048)"},
};
struct Trait {
  std::string_view name;
  bool zero::plan::Transformer::*member;
  std::string_view meaning;
};
inline constexpr Trait traits[] = {
    {"learned-positions", &zero::plan::Transformer::learned_positions, "a vector for each place"},
    {"gated", &zero::plan::Transformer::gated, "three matrices in the feed-forward part"},
    {"tied", &zero::plan::Transformer::tied, "the head reads the embedding's table"},
    {"biases", &zero::plan::Transformer::biases, "of matrices and norms"},
    {"dropout", &zero::plan::Transformer::dropout, "masks are kept"},
};
}  // namespace detail

/// Sets the dimension or trait called `name`; false if there is none.
inline bool set_dimension(zero::plan::Transformer& model, std::string_view name,
                          std::string_view value, const std::string& what) {
  for (const detail::Dimension& d : detail::dimensions) {
    if (d.name != name) continue;
    model.*d.member = parse_number<std::size_t>(what, value, 1, d.most);
    return true;
  }
  for (const detail::Trait& t : detail::traits) {
    if (t.name != name) continue;
    model.*t.member = parse_yes(what, value);
    return true;
  }
  return false;
}
/// Refuses dimensions that do not fit together.
inline void check_dimensions(const zero::plan::Transformer& model) {
  if (model.layers == 0 || model.width == 0 || model.heads == 0)
    throw UsageError("A model by dimensions needs at least layers, width and heads.");
  const auto divides = [](std::size_t small, std::size_t large) { return large % small == 0; };
  if (!divides(model.heads, model.width))
    throw UsageError("The width " + std::to_string(model.width) + " is not divisible by " +
                     std::to_string(model.heads) + " heads: each has an equal part of it.");
  if (model.key_value_heads != 0 && !divides(model.key_value_heads, model.heads))
    throw UsageError(std::to_string(model.heads) + " heads are not divisible by " +
                     std::to_string(model.key_value_heads) +
                     " heads of keys and values: each serves equally many.");
  const double elements =
      static_cast<double>(model.layers) * static_cast<double>(model.width) *
      (4 * static_cast<double>(model.width) + 3 * static_cast<double>(model.inner_width()));
  if (elements > 1e15)
    throw UsageError("The model would have more than 10^15 parameters: check its dimensions.");
}

/// The members of a flat JSON object: strings, numbers and booleans, as text.
class FlatJson {
 public:
  /// `kind` says in an error what sort of file it is.
  FlatJson(std::string_view text, std::string_view kind) : text_(text), kind_(kind) {}

  std::vector<std::pair<std::string, std::string>> read() {
    std::vector<std::pair<std::string, std::string>> members;
    expect('{');
    if (next() != '}') {
      do {
        std::string key = string();
        for (const auto& member : members) {
          if (member.first == key)
            throw UsageError("The " + std::string(kind_) + " file has '" + key + "' twice.");
        }
        expect(':');
        members.emplace_back(std::move(key), next() == '"' ? string() : word());
      } while (take(','));
    }
    expect('}');
    if (next() != '\0') refuse("the end");
    return members;
  }

 private:
  char next() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) refuse(std::string("'") + c + "'");
  }
  std::string string() {
    expect('"');
    const std::size_t end = text_.find_first_of("\"\\\n", at_);
    if (end == text_.npos || text_[end] != '"') refuse("a plain string");
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end + 1;
    return std::string(found);
  }
  std::string word() {
    const std::size_t end = std::min(text_.find_first_of(",} \t\r\n", at_), text_.size());
    if (end == at_ || text_[at_] == '{' || text_[at_] == '[')
      refuse("a number, a string, true or false");
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end;
    return std::string(found);
  }
  [[noreturn]] void refuse(const std::string& expected) const {
    throw UsageError("The " + std::string(kind_) + " file is not a flat JSON object: at byte " +
                     std::to_string(at_) + " it should have " + expected + ".");
  }

  std::string_view text_, kind_;
  std::size_t at_ = 0;
};

/// The text of a file of some kind, or a UsageError.
inline std::string read_file(const std::string& kind, const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    throw UsageError("The " + kind + " file '" + path + "' cannot be read, or is empty.");
  return text.str();
}

/// The dimensions in a file such as {"layers": 32, "width": 4096, "heads": 32, "gated": true}.
/// Names are those of the options, also with underscores.
inline zero::plan::Transformer read_model(std::string_view text) {
  zero::plan::Transformer model = usual_dimensions;
  for (auto& [key, value] : FlatJson(text, "model").read()) {
    for (char& c : key) c = c == '_' ? '-' : c;
    if (key == "name") continue;
    if (!set_dimension(model, key, value, "'" + key + "' in the model file"))
      throw UsageError("'" + key + "' in the model file is not a dimension: --help lists them.");
  }
  check_dimensions(model);
  return model;
}
inline zero::plan::Transformer read_model_file(const std::string& path) {
  return read_model(read_file("model", path));
}

}  // namespace zero_plan
