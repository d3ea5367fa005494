// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <zero/zero.hpp>

int ranks_that_ran() {
  std::atomic<int> ranks = 0;
  zero::run_threads(2, [&](auto&) { ++ranks; });
  return ranks;
}
