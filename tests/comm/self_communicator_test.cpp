// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <array>
#include <cstddef>
#include <zero/comm/self_communicator.hpp>

#include "conformance.hpp"
#include "host_place.hpp"

BOOST_AUTO_TEST_SUITE(self_communicator_test)

struct World : conformance::HostWorld {
  static constexpr std::array<std::size_t, 1> ranks = {1};
  template <class F>
  static void run(std::size_t, F f) {
    zero::SelfCommunicator comm;
    f(comm);
  }
};

#include "conformance_cases.hpp"

static_assert(zero::Communicator<zero::SelfCommunicator>);

BOOST_AUTO_TEST_SUITE_END()
