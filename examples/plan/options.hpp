// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The command line of zero-plan. Includes zero/plan and headers beside it.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <zero/plan/advice.hpp>

#include "machine_file.hpp"

namespace zero_plan {

struct Options {
  zero::plan::Question question{.model = *zero::plan::find_model("llama3-8b")};
  std::string format = "table", output;
  std::size_t top = 20;
  double failures_hours = 0;  // between two failures of one device; 0: not asked
  double save_seconds = 60;
  std::shared_ptr<const NamedMachine> machine{};  // of a file, whose name the question refers to
  bool help = false, list = false;
};

namespace detail {

template <class Known>
std::string names_of(const Known& known) {
  std::string text;
  for (const auto& one : known) text += (text.empty() ? "" : ", ") + std::string(one.name);
  return text;
}
template <class Known, class Found>
const Found& named(const Known& known, const Found* found, const char* what,
                   std::string_view value) {
  if (found != nullptr) return *found;
  throw UsageError(std::string(what) + " takes one of " + names_of(known) + "; not '" +
                   std::string(value) + "'.");
}

/// Reads options one by one; `finish` makes the question of them.
class Reader {
 public:
  void set(const std::string& name, std::string_view value) {
    using namespace zero::plan;
    const std::string what = "--" + name;
    Question& q = options_.question;
    if (name == "model") {
      q.model = named(known_models, find_model(value), "--model", value);
      dims_ = q.model.dims;
    } else if (name == "model-file") {
      dims_ = read_model_file(std::string(value));
      by_dimensions_ = true;
    } else if (name == "context") {
      context_ = parse_number<std::size_t>(what, value, 1, std::size_t{1} << 24);
    } else if (set_dimension(dims_, name, value, what)) {
      by_dimensions_ = true;
    } else if (name == "devices") {
      q.devices = parse_number<std::size_t>(what, value, 1, 1'000'000);
    } else if (name == "device") {
      device_ = &named(known_devices, find_device(value), "--device", value);
    } else if (name == "machine") {
      options_.machine =
          std::make_shared<const NamedMachine>(read_machine_file(std::string(value)));
    } else if (name == "memory") {
      memory_ = parse_number<double>(what, value, 0.001, 1e6);
    } else if (name == "network") {
      network_ = &named(known_networks, find_network(value), "--network", value);
    } else if (name == "devices-per-node") {
      node_ = parse_number<std::size_t>(what, value, 1, 1024);
    } else if (name == "nics") {
      nics_ = parse_number<std::size_t>(what, value, 1, 1024);
    } else if (name == "batch") {
      q.global_batch = parse_number<std::size_t>(what, value, 1, 1'000'000'000);
    } else if (name == "stage") {
      q.stage = stage(value);
    } else if (name == "recompute") {
      q.recompute_all = value == "all";
      if (!q.recompute_all) q.recompute = recompute(value);
    } else if (name == "attention") {
      if (value != "flash" && value != "plain")
        throw UsageError("--attention takes flash or plain, not '" + std::string(value) + "'.");
      q.attention = value == "flash" ? Attention::flash : Attention::plain;
    } else if (name == "bytes") {
      q.bytes = named(accountings, find_accounting(value), "--bytes", value);
    } else if (name == "efficiency") {
      efficiency_ = parse_number<double>(what, value, 0.01, 1);
    } else if (name == "contention") {
      contention_ = parse_number<double>(what, value, 0, 0.99);
    } else if (name == "skew-us") {
      skew_us_ = parse_number<double>(what, value, 0, 1e6);
    } else if (name == "host-us") {
      host_us_ = parse_number<double>(what, value, 0, 1e6);
    } else if (name == "measured") {
      measured_ = value;
    } else if (name == "failures") {
      options_.failures_hours = parse_number<double>(what, value, 1, 1e9);
    } else if (name == "save") {
      options_.save_seconds = parse_number<double>(what, value, 0.001, 1e6);
    } else if (name == "format") {
      constexpr std::string_view formats[] = {"table", "json", "html", "svg", "trace"};
      if (std::find(std::begin(formats), std::end(formats), value) == std::end(formats))
        throw UsageError("--format takes table, json, html, svg or trace, not '" +
                         std::string(value) + "'.");
      options_.format = value;
    } else if (name == "output") {
      options_.output = value;
    } else if (name == "top") {
      options_.top = parse_number<std::size_t>(what, value, 1, 1000);
    } else {
      throw UsageError(what + " is not an option: --help lists them.");
    }
  }

  Options finish() {
    using namespace zero::plan;
    Question& q = options_.question;
    if (options_.machine != nullptr && device_ != nullptr)
      throw UsageError("--machine and --device both say what the devices are: give one of them.");
    if (by_dimensions_) {
      check_dimensions(dims_);
      q.model = ModelDescription("the model", dims_);
    }
    if (context_ != 0) q.model = q.model.with_context(context_);
    q.machine = machine();
    if (!measured_.empty()) calibrate();
    if (q.global_batch % q.devices != 0)
      throw UsageError("--batch " + std::to_string(q.global_batch) + " is not divisible by " +
                       std::to_string(q.devices) +
                       " devices: each trains on equally many sequences of a step.");
    const NamedStage* const asked = find_stage(q.stage);
    if (asked != nullptr && zero::plan::detail::meshes_of(q, asked->stage).empty())
      throw UsageError("--stage " + std::string(q.stage) + " on " + std::to_string(q.devices) +
                       " devices has no two groups of 2, 4, 8, ... devices that are replicas.");
    return options_;
  }

 private:
  /// That of --machine or --device, with what else was said of it.
  zero::plan::Machine machine() const {
    zero::plan::Machine m =
        zero::plan::machine_of(device_ != nullptr ? *device_ : *zero::plan::find_device("h100"));
    if (options_.machine != nullptr) {
      m = options_.machine->machine;
      m.device.name = options_.machine->name;
    }
    if (contention_) m.contention = *contention_;
    if (skew_us_) m.skew_us = *skew_us_;
    if (host_us_) m.host_us_per_step = *host_us_;
    if (efficiency_ != 0) m.efficiency = efficiency_;
    if (memory_ != 0) m.device.memory_bytes = memory_ * 1e9;
    if (network_ != nullptr) m.nic_bandwidth = network_->nic_bandwidth;
    if (node_ != 0) m.devices_per_node = m.nics_per_node = node_;
    if (nics_ != 0) m.nics_per_node = nics_;
    return m;
  }
  static std::string_view stage(std::string_view value) {
    constexpr std::string_view levels[] = {"ddp", "zero1", "zero2", "zero3"};
    if (value == "all") return "all";
    if (value.size() == 1 && value[0] >= '0' && value[0] <= '3')
      return levels[static_cast<std::size_t>(value[0] - '0')];
    if (const zero::plan::NamedStage* found = zero::plan::find_stage(value)) return found->name;
    throw UsageError("--stage takes all, 0 to 3, or one of " + names_of(zero::plan::known_stages) +
                     "; not '" + std::string(value) + "'.");
  }
  static zero::plan::Recompute recompute(std::string_view value) {
    using zero::plan::Recompute;
    for (const Recompute kind : {Recompute::none, Recompute::selective, Recompute::full})
      if (value == name_of(kind)) return kind;
    throw UsageError("--recompute takes all, none, selective or full, not '" + std::string(value) +
                     "'.");
  }

  /// Makes the machine as fast as a run that was measured: "devices=8,sequences=6,tokens=10643".
  void calibrate() {
    using namespace zero::plan;
    Question& q = options_.question;
    Training run{.model = q.model,
                 .stage = find_stage("zero3")->stage,
                 .mesh = {q.devices, 1},
                 .attention = q.attention,
                 .bytes = q.bytes};
    double tokens = 0;
    for (std::string_view rest = measured_; !rest.empty();) {
      const std::string_view part = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(part.size() + 1, rest.size()));
      const std::size_t equals = std::min(part.find('='), part.size());
      const std::string_view key = part.substr(0, equals);
      const std::string_view value = part.substr(std::min(equals + 1, part.size()));
      const std::string what = "'" + std::string(key) + "' of --measured";
      if (key == "stage") {
        const std::string_view name = stage(value);
        if (name == "all" || find_stage(name)->stage.traits.replicates)
          throw UsageError(what + " takes a stage without replicas, not '" + std::string(value) +
                           "'.");
        run.stage = find_stage(name)->stage;
      } else if (key == "devices") {
        run.mesh.shards = parse_number<std::size_t>(what, value, 1, 1'000'000);
      } else if (key == "sequences") {
        run.sequences = parse_number<std::size_t>(what, value, 1, 1'000'000);
      } else if (key == "micro-steps") {
        run.micro_steps = parse_number<std::size_t>(what, value, 1, 1'000'000);
      } else if (key == "recompute") {
        run.recompute = recompute(value);
      } else if (key == "tokens") {
        tokens = parse_number<double>(what, value, 1e-3, 1e9);
      } else {
        throw UsageError(what +
                         " is not one of stage, devices, sequences, micro-steps, recompute, "
                         "tokens.");
      }
    }
    if (tokens == 0)
      throw UsageError("--measured needs tokens=N: what each device did in a second.");
    const Machine machine = calibrated(run, q.machine, tokens);
    const double reached = predict(run, machine).tokens_per_second;
    if (std::abs(reached / tokens - 1) > 0.01)
      throw UsageError(
          "No efficiency of the kernels from 0.01 to 1 explains the tokens of "
          "--measured: check its devices, sequences and recomputation.");
    q.machine = machine;
  }

  Options options_;
  std::string measured_;
  zero::plan::Transformer dims_ = usual_dimensions;
  const zero::plan::Device* device_ = nullptr;
  const zero::plan::NetworkSpeed* network_ = nullptr;
  std::size_t context_ = 0, node_ = 0, nics_ = 0;
  std::optional<double> contention_, skew_us_, host_us_;
  double memory_ = 0, efficiency_ = 0;
  bool by_dimensions_ = false;
};
}  // namespace detail

/// Reads `--name value` and `--name=value`.
///
/// Errors:  UsageError for anything that nothing can be planned for.
inline Options parse_options(int argc, const char* const* argv) {
  detail::Reader reader;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    Options other;
    other.help = argument == "--help" || argument == "-h";
    other.list = argument == "--list";
    if (other.help || other.list) return other;
    if (!argument.starts_with("--"))
      throw UsageError("'" + std::string(argument) + "' is not an option: --help lists them.");
    const std::size_t equals = argument.find('=');
    const std::string name(argument.substr(2, equals == argument.npos ? equals : equals - 2));
    if (equals == argument.npos && i + 1 == argc)
      throw UsageError("--" + name +
                       " needs a value after it, if it is an option: --help lists them.");
    reader.set(name, equals == argument.npos ? argv[++i] : argument.substr(equals + 1));
  }
  return reader.finish();
}

}  // namespace zero_plan
