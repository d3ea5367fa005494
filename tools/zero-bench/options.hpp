// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The command line of zero-bench. Includes examples/plan.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "benchmarks/tax_model.hpp"
#include "examples/plan/model_file.hpp"

namespace zero_bench {

using zero_plan::UsageError;

struct Options {
  bool quick = false, help = false;
  std::size_t ranks = std::thread::hardware_concurrency() >= 4 ? 4 : 2;
  double seconds = 0.2;  // for each benchmark, at least
  std::string only;      // a part, or all
  std::string json, svg, machine;
  TaxModel tax{};
};

inline constexpr std::string_view part_names[] = {"collectives", "kernels", "host",
                                                  "overlap",     "tax",     "machine"};

inline std::string usage() {
  std::string names;
  for (const std::string_view part : part_names) {
    names += (names.empty() ? "" : ", ") + std::string(part);
  }
  return "zero-bench: how near does zero come to what this machine can do?\n\n"
         "Usage: zero-bench [--option value]...             ranks are threads\n"
         "       mpirun -n 4 zero-bench [--option value]... collectives of processes, over MPI\n\n"
         "  --quick             few sizes, no time: shows that it runs\n"
         "  --only PART         " +
         names +
         "\n"
         "  --ranks N           2 or 4 threads (4 where there are as many processors, else 2)\n"
         "  --seconds S         for each benchmark, at least (0.2)\n"
         "  --json FILE         all numbers\n"
         "  --svg FILE          a picture of the ratios\n"
         "  --machine FILE      what zero-plan --machine reads\n"
         "The model whose sharding tax is measured, a GPT on bytes:\n"
         "  --layers N (4)      --width N (256)      --heads N (4)\n"
         "  --context N (64)    --sequences N (8), of a rank in a step\n";
}

/// Reads `--name value` and `--name=value`.
///
/// Errors:  UsageError for what cannot be measured.
inline Options parse_options(int argc, const char* const* argv) {
  Options options;
  for (int i = 1; i < argc; ++i) options.quick |= std::string_view(argv[i]) == "--quick";
  if (options.quick) {
    options.seconds = 0.001;
    options.tax = {.layers = 2, .width = 64, .sequences = 2};
  }
  struct Size {
    std::string_view name;
    std::int64_t TaxModel::*member;
    std::int64_t most;
  };
  constexpr Size sizes[] = {{"layers", &TaxModel::layers, 96},
                            {"width", &TaxModel::width, 8192},
                            {"heads", &TaxModel::heads, 128},
                            {"context", &TaxModel::context, 4096},
                            {"sequences", &TaxModel::sequences, 1024}};
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      options.help = true;
      return options;
    }
    if (argument == "--quick") continue;
    const std::size_t equals = argument.find('=');
    const std::string what(argument.substr(0, equals));
    const auto value = [&] {
      if (equals != argument.npos) return std::string(argument.substr(equals + 1));
      if (i + 1 == argc) throw UsageError(what + " needs a value after it.");
      return std::string(argv[++i]);
    };
    const Size* const size = std::find_if(std::begin(sizes), std::end(sizes), [&](const Size& s) {
      return what == "--" + std::string(s.name);
    });
    if (size != std::end(sizes)) {
      options.tax.*size->member =
          zero_plan::parse_number<std::int64_t>(what, value(), 1, size->most);
    } else if (what == "--ranks") {
      options.ranks = zero_plan::parse_number<std::size_t>(what, value(), 2, 4);
      if (options.ranks == 3) throw UsageError("--ranks takes 2 or 4, not '3'.");
    } else if (what == "--seconds") {
      options.seconds = zero_plan::parse_number<double>(what, value(), 0.001, 60);
    } else if (what == "--only") {
      options.only = value();
      if (std::find(std::begin(part_names), std::end(part_names), options.only) ==
          std::end(part_names))
        throw UsageError("--only takes collectives, kernels, host, overlap, tax or machine, not '" +
                         options.only + "'.");
    } else if (what == "--json" || what == "--svg" || what == "--machine") {
      (what == "--json" ? options.json : what == "--svg" ? options.svg : options.machine) = value();
    } else {
      throw UsageError("'" + std::string(argument) + "' is not an option: --help lists them.");
    }
  }
  if (options.tax.width % options.tax.heads != 0)
    throw UsageError("The width " + std::to_string(options.tax.width) + " is not divisible by " +
                     std::to_string(options.tax.heads) + " heads.");
  if (!options.machine.empty() && !options.only.empty())
    throw UsageError("--machine needs all parts: leave --only out.");
  return options;
}

}  // namespace zero_bench
