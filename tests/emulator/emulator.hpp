// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What a test may ask of the CUDA and NCCL look-alikes, and tell them. Includes the toolkit's
// headers.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

/// A CUDA runtime and an NCCL for tests: streams are threads, device memory is memory of the host.
///
/// The only happens-before edges between threads are those that CUDA promises: from the host's call
/// to the work that it enqueues, from one piece of work to the next of its stream, from a recorded
/// event to those that wait for it, from finished work to the host that synchronised with it or was
/// told that it is complete. Under the thread sanitizer a missing wait is a data race.
namespace emulator {

/// Forgets faults, sticky errors, limits, delays, counts of calls, traces, peaks and reports.
/// Pre: no work is pending.
void reset();

// ---- Devices and memory

/// How many devices there are; at the start ZERO_EMULATOR_DEVICES of the environment or 8, and 64
/// at most.
void set_device_count(int count);
/// How many bytes cudaMalloc and its like may hold on each device; 16 GiB at the start.
void set_memory_limit(std::size_t bytes);
/// Bytes of device memory that are allocated, as the host's calls say.
std::size_t memory_in_use(int device);
/// The most that memory_in_use(device) has been since the last reset_peaks().
std::size_t memory_peak(int device);
void reset_peaks();
/// The addresses of device memory carry a bit that no address of the host has: the host that loads
/// or stores through one of them ends with a segmentation fault, as it does on a real device.
inline constexpr std::uintptr_t device_bit = std::uintptr_t{1} << 55;
/// Where the memory behind a pointer is found by work that runs on a stream.
template <class T>
T* host_view(T* pointer) {
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(pointer) & ~device_bit);
}
/// True if the bytes lie in one live allocation that the device whose work runs on this thread may
/// access (any device's, on a thread that runs no such work).
bool valid_access(const void* pointer, std::size_t bytes) noexcept;

/// What has been made and not been destroyed.
struct Live {
  std::size_t device_allocations = 0;
  std::size_t pinned_allocations = 0;
  std::size_t streams = 0;
  std::size_t events = 0;
  std::size_t graphs = 0;
  std::size_t executable_graphs = 0;
  std::size_t communicators = 0;
  std::size_t reduction_operators = 0;
  std::size_t registrations = 0;
  bool operator==(const Live&) const = default;
};
Live live();
/// live() as text, one "3 streams" after the other: empty if nothing lives.
std::string leaks();

// ---- Faults

/// A call that fails.
struct CallFault {
  /// Which function, such as "cudaMalloc"; empty for any.
  std::string function = {};
  /// Which of those calls from now on, the first being 1.
  std::uint64_t call = 1;
  /// Calls of threads whose current device this is; -1 for all.
  int device = -1;
  /// What the call returns: the one for functions of CUDA, the other for those of NCCL.
  cudaError_t cuda = cudaErrorUnknown;
  ncclResult_t nccl = ncclSystemError;
};
/// Lets one call fail: it does nothing, except that what destroys something destroys it all the
/// same. Calls that cannot fail (cudaGetLastError, names of errors) are not counted.
void fail_call(CallFault fault);
/// How many calls that can fail there have been since the last reset, by threads whose current
/// device is `device` (-1: by all). With this and fail_call each call is made to fail in turn.
std::uint64_t calls(int device = -1);
/// As calls(), of one function.
std::uint64_t calls_of(const std::string& function, int device = -1);
/// Lets the work that `device` begins as its `nth` from now on fail with a sticky error: it and
/// what comes later is not done, and calls on that device return `error`.
void fail_work(int device, std::uint64_t nth, cudaError_t error = cudaErrorIllegalAddress);
/// Sets what ncclCommGetAsyncError says of `comm`.
void set_async_error(ncclComm_t comm, ncclResult_t error);

// ---- Order and time

/// Before each piece of work its stream sleeps up to `most_us` microseconds, by `seed`; 0 for none.
void set_delays(unsigned most_us, unsigned seed);
/// How many collectives may be resident on a device at once, as the multiprocessors of a real one
/// bound it: a further one waits for a place whatever its stream. 0 (the start): any number.
void set_resident_collectives(unsigned most);

// ---- What happened

/// A call of the host, or a piece of work that ran.
struct Record {
  std::uint64_t sequence;  ///< In this order they began.
  bool work;               ///< Work of a stream; otherwise a call.
  std::string what;        ///< Name of the function, or of the work: "memcpy", a kernel's name.
  int device;
  unsigned stream;  ///< A number of the stream for work, 0 for calls.
  std::size_t bytes;
};
/// Keeps Records from now on, or no longer.
void set_tracing(bool on);
/// What set_tracing() kept so far.
std::vector<Record> trace();

/// Mistakes of the program that were found, such as an access outside of every allocation, a
/// mismatch of collectives, a handle that was used after it was destroyed. Each is printed too, and
/// a program that leaves reports untaken ends with exit status 66.
std::vector<std::string> take_reports();

// ---- Work of a test's own

/// Enqueues `work` like a kernel: it may access device memory by host_view(), is captured into a
/// graph by a capturing stream, and runs again at each launch of it.
cudaError_t enqueue(cudaStream_t stream, const std::string& name, std::function<void()> work);

}  // namespace emulator
