// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The command line of the training programs. Includes zero/device and headers beside it.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <zero/device/host_stream.hpp>

#include "model.hpp"
#include "text.hpp"
#include "usage_error.hpp"

namespace gpt {

/// The programs; each lacks some of the options.
enum class Program { train, demo, mpi, cuda };

struct Options {
  Size ranks = 4;
  Size stage = 3;
  Size layers = Config{}.layers;
  Size width = Config{}.width;
  Size heads = Config{}.heads;
  Size context = Config{}.context;
  Size sequences = 4;
  Size micro_steps = 1;
  Size steps = 200;
  Size sample = 400;
  Size seed = 1;
  double learning_rate = 3e-3;
  zero::StreamMode streams = zero::StreamMode::asynchronous;
  std::string text = default_text;
  std::string output = "build/demo";
  std::string losses = {};
  bool captured = false;
  std::string id_file = "gpt_cuda.id";
  bool help = false;

  Config config() const { return {layers, width, heads, context}; }

  /// Rises for a tenth of the steps, then falls to a tenth along a cosine.
  float learning_rate_at(Size step) const {
    const double all = static_cast<double>(steps), now = static_cast<double>(step), rise = all / 10;
    if (now < rise) return static_cast<float>(learning_rate * std::min(1.0, (now + 1) / rise));
    const double fallen = (now - rise) / (all - rise);  // 0 to 1
    return static_cast<float>(learning_rate * (0.55 + 0.45 * std::cos(3.141592653589793 * fallen)));
  }
};

namespace detail {

struct IntegerOption {
  std::string_view name;
  Size Options::*member;
  Size least, most;
  const char* meaning;
};

inline constexpr IntegerOption integer_options[] = {
    {"ranks", &Options::ranks, 1, 64, "ranks that share the model and the work"},
    {"stage", &Options::stage, 0, 3, "0: shard nothing, 1: optimizer, 2: gradients too, 3: all"},
    {"layers", &Options::layers, 1, 1000, "transformer blocks"},
    {"width", &Options::width, 1, 16384, "size of the residual stream"},
    {"heads", &Options::heads, 1, 256, "attention heads; divides the width"},
    {"context", &Options::context, 2, 4096, "length of a sequence in bytes"},
    {"sequences", &Options::sequences, 1, 4096, "sequences in a micro-step of a rank"},
    {"micro-steps", &Options::micro_steps, 1, 1024, "micro-steps before each update"},
    {"steps", &Options::steps, 1, 1000000000, "updates"},
    {"sample", &Options::sample, 0, 100000, "bytes of text to write at the end"},
    {"seed", &Options::seed, 0, 1000000000, "decides start values, batches and the sample"}};

struct StreamModeName {
  std::string_view name;
  zero::StreamMode mode;
};
inline constexpr StreamModeName stream_modes[] = {{"inline", zero::StreamMode::inline_run},
                                                  {"asynchronous", zero::StreamMode::asynchronous},
                                                  {"shuffled", zero::StreamMode::shuffled}};

/// The whole of `text` as a number, or a UsageError that says what was expected.
template <class Number>
Number parse_number(const std::string& name, std::string_view text, Number least, Number most,
                    const std::string& range) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() ||
      !(value >= least && value <= most))
    throw UsageError("--" + name + " takes " + range + ", not '" + std::string(text) + "'.");
  return value;
}

constexpr bool has(Program program, std::string_view option) {
  if (option == "id-file" && program != Program::cuda) return false;
  if (program == Program::demo) return option != "stage" && option != "losses";
  if (program == Program::cuda) return option != "output" && option != "streams";
  return option != "output" && (program == Program::train || option != "ranks");
}

inline void set_option(Options& options, const std::string& name, std::string_view value,
                       Program program) {
  if (!has(program, name))
    throw UsageError("--" + name + " is not an option here: --help lists them.");
  for (const IntegerOption& option : integer_options)
    if (name == option.name) {
      options.*option.member = parse_number(name, value, option.least, option.most,
                                            "a whole number from " + std::to_string(option.least) +
                                                " to " + std::to_string(option.most));
      return;
    }
  if (name == "learning-rate") {
    options.learning_rate = parse_number(name, value, 0.0, 1.0, "a number from 0 to 1");
  } else if (name == "streams") {
    const auto* const mode = std::find_if(std::begin(stream_modes), std::end(stream_modes),
                                          [&](const StreamModeName& m) { return m.name == value; });
    if (mode == std::end(stream_modes))
      throw UsageError("--streams takes inline, asynchronous or shuffled, not '" +
                       std::string(value) + "'.");
    options.streams = mode->mode;
  } else if (name == "text") {
    options.text = value;
  } else if (name == "output") {
    options.output = value;
  } else if (name == "losses") {
    options.losses = value;
  } else if (name == "id-file") {
    options.id_file = value;
  } else {
    throw UsageError("--" + name + " is not an option: --help lists them.");
  }
}

}  // namespace detail

/// Reads `--name value` and `--name=value`; what is not given is as in `options`.
///
/// Errors:  UsageError for anything that no model can be trained with.
inline Options parse_options(int argc, const char* const* argv, Program program = Program::train,
                             Options options = {}) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      options.help = true;
      return options;
    }
    if (argument == "--captured" && program == Program::cuda) {
      options.captured = true;
      continue;
    }
    if (!argument.starts_with("--"))
      throw UsageError("'" + std::string(argument) + "' is not an option: --help lists them.");
    const std::size_t equals = argument.find('=');
    const std::string name(argument.substr(2, equals == argument.npos ? equals : equals - 2));
    if (equals == argument.npos && i + 1 == argc)
      throw UsageError("--" + name + " needs a value after it.");
    detail::set_option(options, name,
                       equals == argument.npos ? argv[++i] : argument.substr(equals + 1), program);
  }
  if (options.width % options.heads != 0)
    throw UsageError("--width " + std::to_string(options.width) + " is not divisible by --heads " +
                     std::to_string(options.heads) + ": each head has an equal part of the width.");
  return options;
}

/// What --help prints.
inline std::string usage(std::string_view command, Program program = Program::train) {
  const Options defaults;
  std::string text = "Usage: " + std::string(command) + " [--option value]...\n\n";
  const auto line = [&](std::string name, const std::string& meaning, const std::string& value) {
    if (!detail::has(program, name)) return;
    name.resize(std::max<std::size_t>(name.size(), 16), ' ');
    text += "  --" + name + meaning + " (" + value + ")\n";
  };
  for (const detail::IntegerOption& option : detail::integer_options)
    line(std::string(option.name), option.meaning,
         program == Program::cuda && option.member == &Options::ranks
             ? "one for each GPU or process"
             : std::to_string(defaults.*option.member));
  line("learning-rate", "highest learning rate, reached after a tenth of the steps", "0.003");
  line("streams", "how ranks run their streams: inline, asynchronous or shuffled", "asynchronous");
  line("text", "a file, or a folder whose files are read", defaults.text);
  line("losses", "a file for the loss of each step, with all of its bits", "none");
  if (program == Program::cuda)
    text += "  --captured        runs each step as one CUDA graph, without a value (not)\n";
  line("id-file", "a file that all processes see, where a launcher started several",
       defaults.id_file);
  line("output", "a folder for the report and the pictures", defaults.output);
  return text;
}

}  // namespace gpt
