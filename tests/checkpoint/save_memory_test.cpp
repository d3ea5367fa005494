// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What saving takes of memory.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <vector>
#include <zero/checkpoint.hpp>

#include "../counting_new.hpp"
#include "../module/harness.hpp"

BOOST_AUTO_TEST_SUITE(save_memory_test)

constexpr std::size_t ranks = 4;

/// Bytes that are live before the first save and after each, and the most.
struct Bytes {
  std::vector<std::size_t> live{};
  std::size_t most = 0;
};
Bytes save(std::size_t saves, std::size_t units, std::size_t elements) {
  const harness::Model model = harness::model_of({"unit", units, harness::sizes({elements})});
  std::string folder = (std::filesystem::temp_directory_path() / "zero-saves-XXXXXX").string();
  BOOST_REQUIRE(::mkdtemp(folder.data()) != nullptr);
  Bytes bytes;
  bytes.live.reserve(saves + 1);
  harness::on_threads(ranks, std::chrono::seconds(10), [&](zero::ThreadCommunicator& comm) {
    auto module = harness::shard(harness::named<zero::Zero3>("stage 3"), model, zero::mesh(comm),
                                 zero::AdamW{});
    harness::train(module, zero::UserCode::on_caller, harness::Plan{});
    for (std::size_t k = 0; k <= saves; ++k) {
      comm.barrier();
      if (comm.rank() == 0) {
        bytes.live.push_back(live_bytes);
        if (k == 0) peak_bytes = bytes.live.back();
        bytes.most = peak_bytes;
      }
      comm.barrier();
      if (k < saves) zero::save(module, folder, {.name = "last"});
    }
  });
  std::filesystem::remove_all(folder);
  return bytes;
}

// B90
BOOST_AUTO_TEST_CASE(saving_leaks_nothing_and_takes_a_few_blocks_of_a_large_model) {
  const Bytes small = save(5, 4, 1024);
  for (std::size_t k = 2; k <= 5; ++k) BOOST_TEST(small.live[k] == small.live[1]);
  BOOST_TEST(small.live[1] - small.live[0] < 1024U);
  constexpr std::size_t units = 24, elements = 128 * 1024, unit_bytes = elements * sizeof(float);
  constexpr std::size_t blocks = 4 * 1024 * 1024;  // of a file that is being written
  const Bytes large = save(1, units, elements);
  const std::size_t bound = ranks * (blocks + 2 * unit_bytes);
  BOOST_TEST(large.most - large.live[0] < bound);
  BOOST_TEST(3 * units * unit_bytes > bound);  // one copy of the model and its state
}

BOOST_AUTO_TEST_SUITE_END()
