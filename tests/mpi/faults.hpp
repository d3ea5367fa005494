// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Makes a call of MPI fail. The test program has functions of MPI's names of its own (faults.cpp),
// which pass all other calls on.
#pragma once

#include <cstddef>

namespace mpi_test {

/// The `occurrence`-th call (from 1) of the function from now on, by any thread of this process,
/// returns an error and does nothing.
void arm_fault(const char* function, std::size_t occurrence);
/// No call fails any more. Returns whether one has.
bool disarm_fault();
/// The level that MPI_Query_thread tells; -1: what is true.
void pretend_thread_level(int level);

}  // namespace mpi_test
