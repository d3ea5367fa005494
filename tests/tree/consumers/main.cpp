// SPDX-License-Identifier: Apache-2.0
// A user's program of two files, built in three ways: see consumers_test.sh.
#include <zero/zero.hpp>

int ranks_that_ran();

int main() { return ranks_that_ran() == 2 ? 0 : 1; }
