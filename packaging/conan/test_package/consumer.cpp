// SPDX-License-Identifier: Apache-2.0
#include <zero/comm/run_threads.hpp>

int main() {
  zero::run_threads(2, [](auto& comm) { comm.barrier(); });
}
