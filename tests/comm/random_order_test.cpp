// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Random sequences of collectives on random streams with random delays.
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>
#include <zero/comm/mesh.hpp>
#include <zero/comm/run_threads.hpp>

BOOST_AUTO_TEST_SUITE(random_order_test)

using Comm = zero::ThreadCommunicator;
using zero::StreamMode;

/// One sequence; all ranks draw the same collectives, and each its own delays. Returns how many
/// results were wrong.
std::size_t run_sequence(const Comm& world, std::uint64_t seed, StreamMode mode) {
  std::mt19937_64 same(seed);
  std::mt19937_64 own(seed * 31 + world.rank() + 1);
  const std::array<Comm, 2> comms = {world, world.split(static_cast<int>(world.rank() % 2), 0)};
  zero::HostDevice device({.mode = mode, .seed = own()});
  const std::array streams = {&device.make_stream("a"), &device.make_stream("b"),
                              &device.make_stream("c")};
  const std::size_t length = 1 + same() % 12;
  // All ranks hold ones, hence every sum is a number of ranks.
  std::vector<std::vector<float>> data(length);
  std::vector<std::vector<float>> wanted(length);
  for (std::size_t i = 0; i < length; ++i) {
    const Comm& comm = comms[same() % 2];
    const std::size_t count = same() % 4 == 0 ? same() % 3000 : same() % 5;
    const zero::Label label = {.unit = "u", .position = static_cast<std::uint32_t>(i)};
    const auto n = static_cast<float>(comm.size());
    data[i].assign(count * comm.size(), 1);
    wanted[i] = data[i];
    float* const all = data[i].data();
    float* const mine = all + comm.rank() * count;
    if (own() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 200));
    zero::HostStream& on = *streams[own() % 3];
    if (own() % 8 == 0) {
      const auto pause = std::chrono::microseconds(own() % 200);
      on.enqueue([pause] { std::this_thread::sleep_for(pause); });
    }
    switch (same() % 5) {
      case 0: comm.all_gather(on, mine, all, count, label); break;
      case 1: comm.broadcast(on, all, count, same() % comm.size(), label); break;
      case 2: comm.barrier(on, label); break;
      case 3:
        comm.all_reduce(on, all, data[i].size(), label);
        wanted[i].assign(data[i].size(), n);
        break;
      default:
        comm.reduce_scatter(on, all, mine, count, zero::Accumulate::yes, label);
        std::fill_n(wanted[i].begin() + static_cast<std::ptrdiff_t>(comm.rank() * count), count,
                    1 + n);
    }
  }
  device.synchronize();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < length; ++i) wrong += data[i] != wanted[i];
  return wrong;
}

void check(StreamMode mode) {
  std::size_t sequences = 0;
  for (const std::size_t ranks : {2U, 3U, 4U}) {
    std::vector<std::size_t> wrong(ranks);
    zero::run_threads(ranks, [&](Comm& comm) {
      for (std::uint64_t seed = 0; seed < 112; ++seed) {
        wrong[comm.rank()] += run_sequence(comm, seed * 8 + ranks, mode);
      }
    });
    sequences += 112;
    BOOST_TEST((wrong == std::vector<std::size_t>(ranks)));
  }
  BOOST_TEST(sequences == 336U);
}

BOOST_AUTO_TEST_CASE(inline_streams_agree_in_336_random_sequences) {
  check(StreamMode::inline_run);
}

BOOST_AUTO_TEST_CASE(asynchronous_streams_agree_in_336_random_sequences) {
  check(StreamMode::asynchronous);
}

BOOST_AUTO_TEST_CASE(shuffled_streams_agree_in_336_random_sequences) {
  check(StreamMode::shuffled);
}

BOOST_AUTO_TEST_SUITE_END()
