// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Collectives: where ranks lie, limits of bandwidth and latency, and who wins where.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <zero/plan/collectives.hpp>

BOOST_AUTO_TEST_SUITE(collectives_test)

using namespace zero::plan;

Machine calm(const char* device) {
  Machine machine = machine_of(*find_device(device));
  machine.skew_us = 0;
  return machine;
}
constexpr bool lies(std::size_t count, std::size_t stride, std::size_t members, std::size_t nodes) {
  const Group group = group_of(Machine{}, count, stride);
  return group.members == members && group.nodes == nodes;
}
static_assert(lies(4, 1, 4, 1) && lies(8, 1, 8, 1) && lies(64, 1, 8, 8));
// Replicas of groups of 8, of 2 and of 16.
static_assert(lies(4, 8, 1, 4) && lies(8, 2, 4, 2) && lies(4, 16, 1, 4) && lies(1, 8, 1, 1));

constexpr double large = 16e9;

BOOST_AUTO_TEST_CASE(large_messages_go_at_bus_bandwidth) {
  const Machine machine = calm("a100-80");
  const auto rate = [&](Group group) {  // as nccl-tests count it
    const auto n = static_cast<double>(group.ranks());
    return large * (n - 1) / n / gather_us(machine, group, large) / 1e3;
  };
  BOOST_TEST(std::abs(rate({8, 1}) / 240 - 1) < 0.01);     // NVLink
  BOOST_TEST(std::abs(rate({8, 16}) / 190 - 1) < 0.01);    // eight ports of 25 GB/s at 0.95
  BOOST_TEST(std::abs(rate({1, 16}) / 23.75 - 1) < 0.01);  // one of them
  Machine shared = machine;
  shared.nics_per_node = 2;
  BOOST_TEST(std::abs(bus_bandwidth(shared, {8, 2}) / 47.5e9 - 1) < 1e-9);
  BOOST_TEST(std::abs(bus_bandwidth(shared, {1, 2}) / 5.9375e9 - 1) < 1e-9);
}

BOOST_AUTO_TEST_CASE(small_messages_take_a_latency_that_grows_with_ranks) {
  const Machine machine = calm("h100");
  BOOST_TEST(gather_us(machine, {1, 1}, 1e9) == 0.0);
  // LL: 6.6 us, 7 hops of 0.6; 56 of 0.6 and 7 of 2.7.
  BOOST_TEST(std::abs(gather_us(machine, {8, 1}, 8) - (6.6 + 7 * 0.6)) < 0.01);
  BOOST_TEST(std::abs(gather_us(machine, {8, 8}, 8) - (6.6 + 56 * 0.6 + 7 * 2.7)) < 0.01);
  double before = 0;
  for (std::size_t nodes = 1; nodes <= 4096; nodes *= 2) {
    const double us = gather_us(machine, {8, nodes}, 1e6);
    BOOST_TEST(us > before);
    before = us;
  }
}

BOOST_AUTO_TEST_CASE(a_ring_all_reduce_is_a_reduce_scatter_and_an_all_gather) {
  const Machine machine = calm("a100-80");
  const double both = 2 * gather_us(machine, {8, 4}, large);
  const double one = all_reduce_us(machine, {8, 4}, large, Algorithm::ring);
  BOOST_TEST(std::abs(one / both - 1) < 1e-3);
}

BOOST_AUTO_TEST_CASE(trees_win_on_many_nodes_with_little_data_and_rings_with_much) {
  const Machine machine = calm("h100");
  const auto tree_wins = [&](std::size_t nodes, double bytes) {
    return all_reduce_us(machine, {8, nodes}, bytes, Algorithm::tree) <
           all_reduce_us(machine, {8, nodes}, bytes, Algorithm::ring);
  };
  BOOST_TEST(tree_wins(128, 1e5));
  BOOST_TEST(!tree_wins(2, 1e10));
  // Latency grows with the logarithm of nodes, a ring's with their number.
  const double grows = all_reduce_us(machine, {8, 4096}, 1024, Algorithm::tree) /
                       all_reduce_us(machine, {8, 64}, 1024, Algorithm::tree);
  BOOST_TEST(grows < 2.5);
  Machine sums = machine;
  sums.in_network = true;
  BOOST_TEST(all_reduce_us(sums, {8, 16}, 1e9) < 0.6 * all_reduce_us(machine, {8, 16}, 1e9));
}

BOOST_AUTO_TEST_CASE(stragglers_cost_more_among_more_ranks) {
  Machine machine = calm("h100");
  const double calm_us = gather_us(machine, {8, 8}, 1e6);
  machine.skew_us = 50;
  const double late = gather_us(machine, {8, 8}, 1e6) - calm_us;
  BOOST_TEST(std::abs(late - 50 * std::sqrt(2 * std::log(64.0))) < 1e-6);
}

BOOST_AUTO_TEST_SUITE_END()
