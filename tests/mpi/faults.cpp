// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The functions of MPI that the library calls, through MPI's profiling interface.
#include "faults.hpp"

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstring>

namespace mpi_test {

std::atomic<const char*> faulty{nullptr};
std::atomic<std::size_t> calls_before{0};
std::atomic<bool> failed{false};
std::atomic<int> thread_level{-1};

void arm_fault(const char* function, std::size_t occurrence) {
  failed = false;
  calls_before = occurrence;
  faulty = function;
}
bool disarm_fault() {
  faulty = nullptr;
  return failed;
}
void pretend_thread_level(int level) { thread_level = level; }

/// The result of one call: of `call`, or an error.
template <class Call>
int run(const char* function, Call call) {
  const char* const armed = faulty;
  if (armed != nullptr && std::strcmp(armed, function) == 0 && calls_before.fetch_sub(1) == 1) {
    failed = true;
    return MPI_ERR_OTHER;
  }
  return call();
}

}  // namespace mpi_test

using mpi_test::run;

extern "C" {

int MPI_Initialized(int* flag) {
  return run("MPI_Initialized", [&] { return PMPI_Initialized(flag); });
}
int MPI_Finalized(int* flag) {
  return run("MPI_Finalized", [&] { return PMPI_Finalized(flag); });
}
int MPI_Query_thread(int* level) {
  const int code = run("MPI_Query_thread", [&] { return PMPI_Query_thread(level); });
  if (mpi_test::thread_level >= 0) *level = mpi_test::thread_level;
  return code;
}
int MPI_Comm_test_inter(MPI_Comm comm, int* flag) {
  return run("MPI_Comm_test_inter", [&] { return PMPI_Comm_test_inter(comm, flag); });
}
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* made, MPI_Request* request) {
  return run("MPI_Comm_idup", [&] { return PMPI_Comm_idup(comm, made, request); });
}
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler) {
  return run("MPI_Comm_set_errhandler", [&] { return PMPI_Comm_set_errhandler(comm, handler); });
}
int MPI_Comm_rank(MPI_Comm comm, int* rank) {
  return run("MPI_Comm_rank", [&] { return PMPI_Comm_rank(comm, rank); });
}
int MPI_Comm_size(MPI_Comm comm, int* size) {
  return run("MPI_Comm_size", [&] { return PMPI_Comm_size(comm, size); });
}
int MPI_Comm_get_attr(MPI_Comm comm, int key, void* value, int* flag) {
  return run("MPI_Comm_get_attr", [&] { return PMPI_Comm_get_attr(comm, key, value, flag); });
}
int MPI_Comm_free(MPI_Comm* comm) {
  return run("MPI_Comm_free", [&] { return PMPI_Comm_free(comm); });
}
int MPI_Isend(const void* from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return run("MPI_Isend", [&] { return PMPI_Isend(from, count, type, to, tag, comm, request); });
}
int MPI_Irecv(void* to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return run("MPI_Irecv", [&] { return PMPI_Irecv(to, count, type, from, tag, comm, request); });
}
int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
  return run("MPI_Test", [&] { return PMPI_Test(request, done, status); });
}
int MPI_Testall(int count, MPI_Request requests[], int* done, MPI_Status statuses[]) {
  return run("MPI_Testall", [&] { return PMPI_Testall(count, requests, done, statuses); });
}
int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  return run("MPI_Wait", [&] { return PMPI_Wait(request, status); });
}
int MPI_Cancel(MPI_Request* request) {
  return run("MPI_Cancel", [&] { return PMPI_Cancel(request); });
}
int MPI_Iprobe(int from, int tag, MPI_Comm comm, int* found, MPI_Status* status) {
  return run("MPI_Iprobe", [&] { return PMPI_Iprobe(from, tag, comm, found, status); });
}
int MPI_Get_count(const MPI_Status* status, MPI_Datatype type, int* count) {
  return run("MPI_Get_count", [&] { return PMPI_Get_count(status, type, count); });
}

}  // extern "C"
