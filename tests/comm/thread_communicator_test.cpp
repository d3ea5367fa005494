// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <array>
#include <cstddef>
#include <zero/comm/run_threads.hpp>

#include "conformance.hpp"
#include "host_place.hpp"

BOOST_AUTO_TEST_SUITE(thread_communicator_test)

struct World : conformance::HostWorld {
  static constexpr std::array<std::size_t, 6> ranks = {1, 2, 3, 4, 5, 8};
  template <class F>
  static void run(std::size_t count, F f) {
    zero::run_threads(count, f);
  }
};

#include "conformance_cases.hpp"

static_assert(zero::Communicator<zero::ThreadCommunicator>);

BOOST_AUTO_TEST_SUITE_END()
