// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How work gets into streams. Private to the emulator; all of it with the lock held.
#pragma once

#include "state.hpp"

namespace emulator {

/// A new stream with its thread.
StreamPointer make_stream(Lock&, int device, unsigned flags, int priority = 0);
/// What that thread does. The lock is not held.
void run_stream(StreamPointer stream);
/// Lets the thread end after the work that is enqueued.
void close_stream(Lock&, Stream& stream);

/// The stream behind a handle, also the legacy and the per-thread one.
/// Errors: CudaFailure, after a report, if there is none.
StreamPointer find_stream(Lock&, cudaStream_t handle);
/// The same for work that a device other than the current one must not be given.
StreamPointer find_stream_of_current_device(Lock&, cudaStream_t handle);

/// Enqueues work, or captures it if the stream is being captured.
void submit(Lock&, const StreamPointer& stream, Work work);
/// Enqueues work that comes after operations of other streams as well.
OperationPointer push(Lock&, Stream& stream, const Work& work,
                      std::vector<OperationPointer> after = {});
/// Blocks the calling thread, which is ordered after the operation then. Errors: none.
void wait(Lock&, const OperationPointer& operation);
/// Whether it is finished, as cudaStreamQuery says it; the calling thread is ordered after it if
/// so.
cudaError_t query(Lock&, const OperationPointer& operation, int device);
/// As wait(), for all that is enqueued on the device.
void wait_for_device(Lock&, int device);
/// The last operation that the host waits for when it synchronises with the stream; may be null.
OperationPointer last_operation(Lock&, Stream& stream);

}  // namespace emulator
