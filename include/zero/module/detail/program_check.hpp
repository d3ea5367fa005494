// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Whether a program of the caller's makes sense, said in the names of the model. May include
// module/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/module/parameter_table.hpp>
#include <zero/schedule/program.hpp>

namespace zero::detail {

/// "backward of unit 'block.3' in micro-step 1"
inline std::string text_of(const ParameterTable& parameters, const Compute& compute) {
  const auto op = static_cast<std::size_t>(compute.op);  // of the caller's, or of another rank
  std::string text = op == 0         ? "nothing"
                     : op < op_count ? info(compute.op).name
                                     : "operation " + std::to_string(op);
  text += " of unit ";
  if (compute.unit < parameters.units().size()) {
    text.append("'").append(parameters.units()[compute.unit].name).append("'");
  } else {
    text += std::to_string(compute.unit);
  }
  text += " in micro-step " + std::to_string(compute.micro_step);
  if (compute.use != 0) text += ", use " + std::to_string(compute.use);
  return text;
}

/// Reads programs, and knows of each compute whether it is a recomputation.
class ProgramCheck {
 public:
  explicit ProgramCheck(const ParameterTable& parameters) : parameters_(parameters) {}

  /// Obtains room for programs of that many computes, micro-steps and uses of a unit.
  void reserve(std::size_t computes, std::size_t micro_steps, std::size_t uses) {
    kept_.reserve(parameters_.units().size() * micro_steps * uses);
    recomputes_.reserve(computes);
  }

  /// Errors:  ContractError if no loop could run it, with the first compute that is wrong.
  void read(const char* call, const Program& program) {
    const std::size_t units = parameters_.units().size();
    micro_steps_ = program.micro_steps;
    uses_ = uses(program);
    kept_.assign(units * micro_steps_ * uses_, Kept::never);
    recomputes_.assign(program.computes.size(), false);
    std::size_t micro_steps = 0;  // that have a compute
    for (std::size_t place = 0; place < program.computes.size(); ++place) {
      const Compute& compute = program.computes[place];
      const auto refuse = [&](const char* why) {
        throw ContractError(std::string("zero: ") + call + ": compute " + std::to_string(place) +
                            " of the program is " + text_of(parameters_, compute) + ", but " + why);
      };
      if (!computes(compute.op)) refuse("a program consists of forward and backward");
      if (compute.unit >= units) refuse("the model has no such unit");
      if (compute.micro_step >= micro_steps_) refuse("the program has no such micro-step");
      Kept& kept = kept_[key(compute)];
      if (compute.op == Op::forward) {
        recomputes_[place] = kept != Kept::never;
        if (kept == Kept::used) refuse("its backward has come already; begin another micro-step");
        kept = Kept::held;
        micro_steps = std::max<std::size_t>(micro_steps, compute.micro_step + std::size_t{1});
        continue;
      }
      if (!program.updates) refuse("an evaluation has no backward");
      if (kept == Kept::never) refuse("its forward does not come before it");
      if (kept == Kept::used) refuse("it has come already; number the uses of shared weights");
      kept = Kept::used;
    }
    if (micro_steps == micro_steps_) return;
    if (micro_steps == 0) {
      throw ContractError(std::string("zero: ") + call +
                          ": the program has no computes; list those of at least one unit");
    }
    throw ContractError(std::string("zero: ") + call + ": the program has " +
                        std::to_string(micro_steps_) + " micro-steps, but the computes of only " +
                        std::to_string(micro_steps) + "; set Program::micro_steps to that");
  }

  std::size_t uses_of_a_unit() const { return uses_; }
  bool recomputes(std::size_t place) const { return recomputes_[place] != 0; }
  /// A number for the unit, micro-step and use of a compute.
  std::size_t key(const Compute& compute) const {
    return (compute.unit * micro_steps_ + compute.micro_step) * uses_ + compute.use;
  }
  std::size_t keys() const { return kept_.size(); }

 private:
  enum class Kept : std::uint8_t { never, held, used };

  const ParameterTable& parameters_;
  List<Kept> kept_;        // [key] whether its activations are there
  List<char> recomputes_;  // [place]
  std::size_t micro_steps_ = 1, uses_ = 1;
};

}  // namespace zero::detail
