// SPDX-License-Identifier: Apache-2.0
// A user's program, built in each way in which zero can be taken in: see consumers_test.sh.

int ranks_that_ran();

int main() { return ranks_that_ran() == 2 ? 0 : 1; }
