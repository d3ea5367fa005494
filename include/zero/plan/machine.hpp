// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Machine: devices, nodes and the network between them, as a planner sees them. Includes nothing of
// zero.
#pragma once
#include <cstddef>
#include <string_view>

namespace zero::plan {

/// A GPU.
struct Device {
  std::string_view name;        // as it is asked for
  double peak_flops = 0;        // dense, 16-bit, a second
  double memory_bytes = 0;      // of its memory
  double memory_bandwidth = 0;  // bytes a second
  double link_bandwidth = 0;    // bytes a second to the other devices of its node, one direction
};

/// Devices in nodes, nodes in a network. Bandwidths are bytes a second in one direction.
struct Machine {
  Device device{};                   // all are alike
  std::size_t devices_per_node = 8;  // in one machine
  std::size_t nics_per_node = 8;     // shared by the devices of a node
  double nic_bandwidth = 25e9;       // bytes a second of a device to other nodes
  double nic_efficiency = 0.95;      // of its bandwidth, for large messages
  bool in_network = false;           // switches sum (NVLS, SHARP)
  double latency_us = 0;             // of a collective within a node; 0: as NCCL reckons

  double efficiency = 0.55;        // of the peak, that the kernels reach when nothing else runs
  double memory_efficiency = 0.8;  // of the memory's bandwidth, for updates and casts
  /// Of its speed, that compute loses while a collective moves data: both use the memory, and the
  /// collective some of the processors. With skew_us it is what fits the published runs of PyTorch
  /// FSDP in tests/plan/throughput_test.cpp best.
  double contention = 0.65;
  double skew_us = 100;         // standard deviation of when a rank arrives at a collective
  double host_us_per_step = 5;  // what issuing a step of the schedule costs the host
  double usable_memory = 0.92;  // the rest: context, communicators, fragments

  constexpr double network_bandwidth() const {  // of a node
    return static_cast<double>(nics_per_node) * nic_bandwidth * nic_efficiency;
  }
  /// What a program can have.
  constexpr double usable_bytes() const { return device.memory_bytes * usable_memory; }
};

/// Link bandwidths are what NCCL reckons with: 18 to 40 GB/s a link, of nominal 20, 25, 25, 25 and
/// 50.
///
/// Source:  NVIDIA's data sheets of V100 SXM2, A100 SXM4, H100 SXM5, H200 SXM and HGX B200: dense
///          rates; 6, 12, 18, 18 and 18 links. NCCL 2.2x, src/graph/topo.h, SM70_NVLINK_BW to
///          SM100_NVLINK_BW.
inline constexpr Device known_devices[] = {
    {"v100-32", 125e12, 32e9, 900e9, 6 * 20.0e9},   {"a100-40", 312e12, 40e9, 1555e9, 12 * 20.0e9},
    {"a100-80", 312e12, 80e9, 2039e9, 12 * 20.0e9}, {"h100", 989.4e12, 80e9, 3352e9, 18 * 20.6e9},
    {"h200", 989.4e12, 141e9, 4800e9, 18 * 20.6e9}, {"b200", 2250e12, 180e9, 7700e9, 18 * 40.1e9},
};
/// A network by its name.
struct NetworkSpeed {
  std::string_view name;     // as it is asked for
  double nic_bandwidth = 0;  // bytes a second of a device
};
/// Nominal rates of a port, one direction. Source:  InfiniBand Trade Association, roadmap; IEEE
/// 802.3 for RoCE.
inline constexpr NetworkSpeed known_networks[] = {
    {"edr", 12.5e9},      {"hdr", 25e9},      {"ndr", 50e9},      {"xdr", 100e9},
    {"roce-100", 12.5e9}, {"roce-200", 25e9}, {"roce-400", 50e9},
};

constexpr const Device* find_device(std::string_view name) {
  for (const Device& device : known_devices) {
    if (device.name == name) return &device;
  }
  return nullptr;
}
constexpr const NetworkSpeed* find_network(std::string_view name) {
  for (const NetworkSpeed& network : known_networks) {
    if (network.name == name) return &network;
  }
  return nullptr;
}

/// A machine of nodes of 8 devices with a port for each: 100, 200, 200, 400, 400 and 400 Gb/s.
constexpr Machine machine_of(const Device& device) {
  Machine machine;
  machine.device = device;
  const bool old = device.peak_flops < 200e12;
  const bool recent = device.peak_flops > 900e12;
  machine.nic_bandwidth = old ? 12.5e9 : recent ? 50e9 : 25e9;
  // Hopper's kernels reach less of a peak that rose faster than memory.
  machine.efficiency = old ? 0.45 : recent ? 0.5 : 0.65;
  return machine;
}

}  // namespace zero::plan
