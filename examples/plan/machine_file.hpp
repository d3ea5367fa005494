// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Machines in a small JSON file, as zero-bench measures them. Includes zero/plan and headers beside
// it.
#pragma once

#include <cstdint>
#include <fstream>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <zero/plan/machine.hpp>

#include "model_file.hpp"

namespace zero_plan {

namespace detail {
/// A number of a machine: in its device or beside it, with the range that makes sense. Those whose
/// range does not have the machine's own value must be in the file.
struct MachineNumber {
  std::string_view name;
  double zero::plan::Device::*of_device = nullptr;
  double zero::plan::Machine::*of_machine = nullptr;
  double least = 0, most = 0;
  double& in(zero::plan::Machine& machine) const {
    return of_device != nullptr ? machine.device.*of_device : machine.*of_machine;
  }
};
inline constexpr MachineNumber machine_numbers[] = {
    {"peak_flops", &zero::plan::Device::peak_flops, nullptr, 1e6, 1e18},
    {"memory_bytes", &zero::plan::Device::memory_bytes, nullptr, 1e6, 1e15},
    {"memory_bandwidth", &zero::plan::Device::memory_bandwidth, nullptr, 1e6, 1e15},
    {"link_bandwidth", &zero::plan::Device::link_bandwidth, nullptr, 1e6, 1e15},
    {"nic_bandwidth", nullptr, &zero::plan::Machine::nic_bandwidth, 1e3, 1e15},
    {"nic_efficiency", nullptr, &zero::plan::Machine::nic_efficiency, 0.01, 1},
    {"latency_us", nullptr, &zero::plan::Machine::latency_us, 0, 1e6},
    {"efficiency", nullptr, &zero::plan::Machine::efficiency, 0.01, 1},
    {"memory_efficiency", nullptr, &zero::plan::Machine::memory_efficiency, 0.01, 1},
    {"contention", nullptr, &zero::plan::Machine::contention, 0, 0.99},
    {"skew_us", nullptr, &zero::plan::Machine::skew_us, 0, 1e6},
    {"host_us_per_step", nullptr, &zero::plan::Machine::host_us_per_step, 0, 1e6},
    {"usable_memory", nullptr, &zero::plan::Machine::usable_memory, 0.01, 1},
};
struct MachineCount {
  std::string_view name;
  std::size_t zero::plan::Machine::*member;
};
inline constexpr MachineCount machine_counts[] = {
    {"devices_per_node", &zero::plan::Machine::devices_per_node},
    {"nics_per_node", &zero::plan::Machine::nics_per_node},
};
}  // namespace detail

/// A machine, and the name that its file gives it.
struct NamedMachine {
  std::string name = "the machine";
  zero::plan::Machine machine{};
};

/// The machine in a file such as {"name": "mine", "peak_flops": 1e11, "memory_bytes": 8e9,
/// "memory_bandwidth": 1e10, "link_bandwidth": 5e9}. What else it has may be there too.
///
/// Errors:  UsageError for what is no such file.
inline NamedMachine read_machine(std::string_view text) {
  NamedMachine read;
  read.machine.device = {};
  bool ports = false;
  for (const auto& [key, value] : FlatJson(text, "machine").read()) {
    const std::string what = "'" + key + "' in the machine file";
    bool known = key == "name";
    if (known) read.name = value;
    for (const detail::MachineNumber& number : detail::machine_numbers) {
      if (number.name != key) continue;
      number.in(read.machine) = parse_number<double>(what, value, number.least, number.most);
      known = true;
    }
    for (const detail::MachineCount& count : detail::machine_counts) {
      if (count.name != key) continue;
      read.machine.*count.member = parse_number<std::size_t>(what, value, 1, 1024);
      known = true;
    }
    ports = ports || key == "nics_per_node";
    if (!known) throw UsageError(what + " is nothing that a machine has: check its spelling.");
  }
  for (const detail::MachineNumber& number : detail::machine_numbers) {
    if (number.in(read.machine) < number.least)
      throw UsageError("The machine file needs '" + std::string(number.name) + "'.");
  }
  if (!ports) read.machine.nics_per_node = read.machine.devices_per_node;
  return read;
}
inline NamedMachine read_machine_file(const std::string& path) {
  return read_machine(read_file("machine", path));
}

/// Writes what read_machine reads.
inline void print_machine(std::ostream& out, std::string_view name, zero::plan::Machine machine) {
  out << "{\"name\": \"" << name << '"';
  for (const detail::MachineCount& count : detail::machine_counts)
    out << ",\n \"" << count.name << "\": " << machine.*count.member;
  for (const detail::MachineNumber& number : detail::machine_numbers)
    out << ",\n \"" << number.name << "\": " << number.in(machine);
  out << "}\n";
}

}  // namespace zero_plan
