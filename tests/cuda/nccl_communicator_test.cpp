// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <array>
#include <cmath>
#include <cstddef>
#include <stdexcept>

#include "../comm/conformance.hpp"
#include "place.hpp"
#include "ranks.hpp"

BOOST_AUTO_TEST_SUITE(nccl_communicator_test)

struct World {
  using Place = cuda_tests::Place;
  static constexpr bool in_rank_order = false;
  static constexpr bool accumulates = false;
  static constexpr std::array<std::size_t, 3> ranks = {1, 3, 4};
  template <class F>
  static void run(std::size_t count, F f) {
    if (cuda_tests::too_few_devices(count)) return;
    zero::NcclOptions options;
    options.host_buffer_bytes = 4096;  // so that collectives of the host take several turns
    for (const cuda_tests::Outcome& outcome : cuda_tests::outcomes(count, options, f)) {
      if (!outcome.error.empty()) throw std::runtime_error(outcome.error);
    }
  }
};

#include "../comm/conformance_cases.hpp"

BOOST_AUTO_TEST_SUITE_END()
