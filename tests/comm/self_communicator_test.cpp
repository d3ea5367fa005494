// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#define BOOST_TEST_MODULE self_communicator
#define BOOST_TEST_DYN_LINK

#include <array>
#include <cstddef>
#include <zero/comm/self_communicator.hpp>

struct World {
  static constexpr std::array<std::size_t, 1> ranks = {1};
  template <class F>
  static void run(std::size_t, F f) {
    zero::SelfCommunicator comm;
    f(comm);
  }
};

#include "conformance.hpp"

static_assert(zero::Communicator<zero::SelfCommunicator>);
