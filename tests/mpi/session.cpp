// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// MPI runs from before the first case of a test program to after the last one. The address
// sanitizer looks for leaks before MPI ends and unloads parts of itself, since what these left
// could not be told from other leaks; what MPI allocates when it begins does not count.
#include <boost/test/unit_test.hpp>
#include <optional>
#include <zero/comm/mpi/run_mpi.hpp>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

struct Session {
#if defined(__SANITIZE_ADDRESS__)
  Session() {
    const __lsan::ScopedDisabler of_mpi;
    mpi.emplace();
  }
  ~Session() { __lsan_do_leak_check(); }
#else
  Session() { mpi.emplace(); }
#endif
  std::optional<zero::MpiSession> mpi;
};

BOOST_TEST_GLOBAL_FIXTURE(Session);
