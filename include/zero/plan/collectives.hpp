// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How long a collective takes: bandwidth, and latency that grows with ranks. May include plan/.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <zero/plan/machine.hpp>

namespace zero::plan {

/// The ranks of one communicator: so many nodes, and members on each.
struct Group {
  std::size_t members = 1;  // on each node
  std::size_t nodes = 1;    // that the ranks are spread over
  /// How many.
  constexpr std::size_t ranks() const { return members * nodes; }
};
/// Where `count` ranks lie that are `stride` apart, if ranks fill one node after the other.
constexpr Group group_of(const Machine& machine, std::size_t count, std::size_t stride) {
  const std::size_t at_most = std::max<std::size_t>(1, machine.devices_per_node / stride);
  const std::size_t members = std::min(count, at_most);
  return {members, (count + members - 1) / members};
}

enum class Algorithm { ring, tree, in_network };

namespace detail {
struct Protocol {
  double base_us[2];                 // ring, tree
  double link_us[2], network_us[2];  // for each hop
  double bandwidth;                  // part of what the wire carries
};
/// LL, LL128, Simple. Source:  NCCL 2.2x, src/graph/tuning.cc, baseLat and hwLat of NVLINK and NET,
/// and the factors of LL and LL128.
inline constexpr Protocol protocols[] = {
    {{6.6, 6.8}, {0.6, 0.6}, {2.7, 5.0}, 0.5},
    {{14.0, 14.0}, {1.9, 1.25}, {4.0, 8.5}, 0.92},
    {{8.4, 8.4}, {3.4, 4.0}, {14.0, 14.0}, 1.0},
};
/// Whether the latency of these ranks was measured.
constexpr bool is_measured(const Machine& machine, Group group) {
  return machine.latency_us > 0 && group.nodes == 1;
}
}  // namespace detail

/// What one rank of a group can send to the others. All groups of an axis communicate at the same
/// time, so that each has its part of a node's ports.
constexpr double bus_bandwidth(const Machine& machine, Group group) {
  const double link = machine.device.link_bandwidth;
  if (group.nodes == 1) return link;
  const double network = machine.network_bandwidth() * static_cast<double>(group.members) /
                         static_cast<double>(machine.devices_per_node);
  return group.members == 1 ? network : std::min(link, network);
}

/// How long the ranks of a collective wait for the last one to arrive: about the largest of n
/// normal variates. Source:  Leadbetter et al., Extremes and Related Properties of Random
/// Sequences, 1983.
inline double straggling_us(const Machine& machine, Group group) {
  return machine.skew_us * std::sqrt(2 * std::log(static_cast<double>(group.ranks())));
}

/// Time of an all-gather to, or a reduce-scatter from, `bytes` on every rank of the group.
///
/// Units:   microseconds.
/// Source:  ring: (n-1)/n of the bytes at bus bandwidth, and n-1 hops, of which one for each node
///          boundary goes over the network; the protocol that is fastest.
inline double gather_us(const Machine& machine, Group group, double bytes) {
  const auto n = static_cast<double>(group.ranks());
  if (group.ranks() <= 1) return 0;
  const double over_network = group.nodes == 1 ? 0 : static_cast<double>(group.nodes) - 1;
  const double wire = bytes * (n - 1) / n / bus_bandwidth(machine, group) * 1e6;
  if (detail::is_measured(machine, group)) {
    return machine.latency_us + wire + straggling_us(machine, group);
  }
  double best = INFINITY;
  for (const detail::Protocol& p : detail::protocols) {
    const double hops = (n - 1 - over_network) * p.link_us[0] + over_network * p.network_us[0];
    best = std::min(best, p.base_us[0] + hops + wire / p.bandwidth);
  }
  return best + straggling_us(machine, group);
}
/// Time of an all-reduce of `bytes` by one algorithm.
///
/// Source:  ring: a reduce-scatter and an all-gather under one launch. Tree: twice the depth of
///          chains within nodes and a binary tree of nodes, cut into pieces of the best size,
///          whence the term with the root of the bytes: (sqrt(a) + sqrt(b))^2 for latency a and
///          wire time b. In the network: each rank sends and receives its bytes once (NVLS 25 us,
///          and 18 us between nodes, as NCCL has them).
inline double all_reduce_us(const Machine& machine, Group group, double bytes,
                            Algorithm algorithm) {
  const auto n = static_cast<double>(group.ranks());
  if (group.ranks() <= 1) return 0;
  const double bandwidth = bus_bandwidth(machine, group);
  double best = INFINITY;
  if (detail::is_measured(machine, group)) {
    return machine.latency_us + 2 * bytes * (n - 1) / n / bandwidth * 1e6;
  }
  if (algorithm == Algorithm::in_network) {
    return 25.0 + (group.nodes == 1 ? 0.0 : 18.0) + bytes / bandwidth * 1e6;
  }
  for (const detail::Protocol& p : detail::protocols) {
    if (algorithm == Algorithm::ring) {
      const double over_network = group.nodes == 1 ? 0 : static_cast<double>(group.nodes) - 1;
      const double hops = (n - 1 - over_network) * p.link_us[0] + over_network * p.network_us[0];
      const double wire = 2 * bytes * (n - 1) / n / bandwidth * 1e6 / p.bandwidth;
      best = std::min(best, p.base_us[0] + 2 * hops + wire);
    } else {
      const double depth = (static_cast<double>(group.members) - 1) * p.link_us[1] +
                           std::ceil(std::log2(static_cast<double>(group.nodes))) * p.network_us[1];
      const double wire = 2 * bytes / bandwidth * 1e6 / p.bandwidth;
      const double root = std::sqrt(2 * depth) + std::sqrt(wire);
      best = std::min(best, p.base_us[1] + root * root);
    }
  }
  return best;
}
/// Time of an all-reduce by the algorithm that is fastest here.
inline double all_reduce_us(const Machine& machine, Group group, double bytes) {
  double best = std::min(all_reduce_us(machine, group, bytes, Algorithm::ring),
                         all_reduce_us(machine, group, bytes, Algorithm::tree));
  if (machine.in_network) {
    best = std::min(best, all_reduce_us(machine, group, bytes, Algorithm::in_network));
  }
  return group.ranks() <= 1 ? 0 : best + straggling_us(machine, group);
}

}  // namespace zero::plan
