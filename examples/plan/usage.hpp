// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What --help and --list print. Includes zero/plan and headers beside it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "options.hpp"

namespace zero_plan {

/// What --help prints.
inline std::string usage() {
  std::string text =
      "zero-plan: will it fit, how fast will it be?\n\n"
      "Usage: zero-plan --model llama3-70b --devices 64 [--option value]...\n\n"
      "The model:\n"
      "  --model NAME            one that --list names (llama3-8b)\n"
      "  --model-file FILE       a JSON object of the dimensions below\n";
  const auto line = [&](std::string_view name, const std::string& meaning) {
    std::string left = name.empty() ? "" : "  --" + std::string(name);
    left.resize(std::max<std::size_t>(left.size() + 1, 26), ' ');
    text += left + meaning + '\n';
  };
  for (const detail::Dimension& d : detail::dimensions) line(d.name, std::string(d.meaning));
  for (const detail::Trait& t : detail::traits)
    line(t.name, std::string(t.meaning) + ": yes or no");
  text += "The machine:\n";
  line("devices", "how many (1)");
  line("device", detail::names_of(zero::plan::known_devices) + " (h100)");
  line("machine", "a JSON file in place of --device: zero-bench writes one");
  line("memory", "GB of a device, if it is another one");
  line("devices-per-node", "8");
  line("network", detail::names_of(zero::plan::known_networks) + " (by device)");
  line("nics", "ports of a node (one a device)");
  line("efficiency", "of the peak that kernels reach, 0.01 to 1 (by device)");
  line("measured", "stage=zero3,devices=8,sequences=6,micro-steps=1,recompute=none,tokens=10643:");
  line("", "finds the efficiency by which a device did so many tokens a second");
  line("contention", "of its speed that compute loses beside communication (0.65)");
  line("skew-us", "how unevenly ranks arrive at a collective, in microseconds (100)");
  line("host-us", "what issuing a step of the schedule costs, in microseconds (5)");
  text += "The training:\n";
  line("batch", "sequences a step, of all devices (any)");
  line("stage", "all, 0 to 3, or " + detail::names_of(zero::plan::known_stages) + " (all)");
  line("recompute", "all, none, selective or full (all)");
  line("attention", "flash or plain (flash)");
  line("bytes", detail::names_of(zero::plan::accountings) + " (mixed-16)");
  line("failures", "hours between two failures of one device: plans checkpoints");
  line("save", "seconds that a checkpoint stalls training (60)");
  text += "The answer:\n";
  line("format", "table, json or html; svg or trace: a step of the best (table)");
  line("output", "a file (standard output)");
  line("top", "rows of the table (20)");
  return text;
}
/// What --list prints.
inline std::string list() {
  std::string text;
  for (const zero::plan::ModelDescription& model : zero::plan::known_models) {
    std::string name(model.name);
    name.resize(16, ' ');
    text += name + std::to_string(model.parameters()) + " parameters\n";
  }
  return text;
}

}  // namespace zero_plan
