// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Communicators: what they say of themselves, their end, and what is registered with them.
#include <algorithm>
#include <cstring>

#include "memory.hpp"
#include "nccl.hpp"

namespace emulator {

Handles<ncclComm_t, Communicator>& communicators() {
  static auto* const only = [] {
    // What waits for other ranks on a device that fails has nothing to wait for any more.
    state().when_device_fails.push_back([] {
      for (const auto& [handle, each] : communicators()) {
        if (each->world) each->world->changed.notify_all();
      }
    });
    return new Handles<ncclComm_t, Communicator>;
  }();
  return *only;
}

namespace {

std::string& thread_error() {
  thread_local std::string text;
  return text;
}

/// Lets go of everything that waits for this communicator; it cannot be used any more.
void abort_now(Lock& held, Communicator& communicator) {
  communicator.aborted = true;
  communicator.connecting.clear();
  leave_meeting(held, communicator);
  wake_meetings(held);
  if (communicator.world) communicator.world->changed.notify_all();
}

ncclResult_t end(Lock& held, const CommunicatorPointer& communicator, ncclComm_t handle) {
  const auto finish = [communicator, handle](Lock& inner) {
    wait_until_idle(inner, *communicator);
    communicator->destroyed = true;
    communicators().take(handle);
    return ncclSuccess;
  };
  if (group_depth() == 0) return finish(held);
  at_group_end(finish);
  return ncclSuccess;
}

/// What ncclCommGetAsyncError says; what takes a while goes on here.
ncclResult_t progress(Lock& held, Communicator& communicator) {
  if (communicator.aborted) return ncclInternalError;
  if (!take_place(held, communicator)) return ncclInProgress;
  if (communicator.async != ncclSuccess) return communicator.async;
  if (!communicator.connecting.empty()) {
    if (communicator.polls++ == 0) return ncclInProgress;
    communicator.connected = true;
    for (const auto& enqueue_now : std::exchange(communicator.connecting, {})) enqueue_now(held);
  }
  if (communicator.finalised && communicator.in_flight != 0) return ncclInProgress;
  return ncclSuccess;
}

ncclResult_t register_buffer(Lock& held, ncclComm_t handle, const void* buffer, std::size_t bytes,
                             void** registration) {
  if (!registration) return ncclInvalidArgument;
  const auto communicator = find_ready_communicator(held, handle);
  const std::string wrong = wrong_device_access(held, buffer, bytes);
  if (!wrong.empty()) {
    report(held, "a buffer was registered with a communicator: " + wrong);
    return ncclInvalidArgument;
  }
  static std::uintptr_t made = 0;
  communicator->registrations[++made] = buffer;
  *registration = reinterpret_cast<void*>(made);
  return ncclSuccess;
}

ncclResult_t unregister_buffer(Lock& held, ncclComm_t handle, void* registration) {
  const auto communicator = find_communicator(held, handle);
  const auto number = reinterpret_cast<std::uintptr_t>(registration);
  if (communicator->registrations.erase(number) == 1) return ncclSuccess;
  report(held, "a registration was ended that the communicator does not have");
  return ncclInvalidArgument;
}

}  // namespace

CommunicatorPointer find_communicator(Lock& held, ncclComm_t handle) {
  auto communicator = communicators().find(handle);
  if (communicator) return communicator;
  report(held, "a communicator was used that was destroyed or never made");
  throw NcclFailure{ncclInvalidArgument};
}

CommunicatorPointer find_ready_communicator(Lock& held, ncclComm_t handle) {
  auto communicator = find_communicator(held, handle);
  if (communicator->aborted || communicator->finalised) throw NcclFailure{ncclInvalidUsage};
  if (!communicator->connecting.empty() || !take_place(held, *communicator)) {
    set_last_error(held, communicator.get(), "the communicator is still in progress");
    throw NcclFailure{ncclInvalidArgument};
  }
  if (communicator->async != ncclSuccess) throw NcclFailure{communicator->async};
  return communicator;
}

void wait_until_idle(Lock& held, Communicator& communicator) {
  if (!communicator.world) return;
  communicator.world->changed.notify_all();
  while (communicator.in_flight != 0) communicator.world->changed.wait(held);
}

void set_last_error(Lock&, Communicator* communicator, const std::string& text) {
  if (communicator) communicator->last_error = text;
  thread_error() = text;
}

void set_async_error(ncclComm_t handle, ncclResult_t error) {
  Hidden hidden;
  Lock held = lock();
  if (const auto communicator = communicators().find(handle)) communicator->async = error;
}

NcclCounts count_nccl(Lock&) {
  NcclCounts counts{communicators().size(), 0, 0};
  for (const auto& [handle, communicator] : communicators()) {
    counts.operators += communicator->reductions.size();
    counts.registrations += communicator->registrations.size();
  }
  return counts;
}

}  // namespace emulator

using namespace emulator;

extern "C" {
ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return nccl_call("ncclCommFinalize", Kind::uses, [&](Lock& held) {
    const auto communicator = find_ready_communicator(held, handle);
    communicator->finalised = true;
    if (communicator->blocking) wait_until_idle(held, *communicator);
    return communicator->in_flight == 0 ? ncclSuccess : ncclInProgress;
  });
}
ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return nccl_call("ncclCommDestroy", Kind::destroys, [&](Lock& held) {
    const auto communicator = find_communicator(held, handle);
    if (!take_place(held, *communicator)) abort_now(held, *communicator);
    return end(held, communicator, handle);
  });
}
ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return nccl_call("ncclCommAbort", Kind::destroys, [&](Lock& held) {
    const auto communicator = find_communicator(held, handle);
    abort_now(held, *communicator);
    return end(held, communicator, handle);
  });
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  return nccl_call("ncclCommGetAsyncError", Kind::uses, [&](Lock& held) {
    if (!error) return ncclInvalidArgument;
    *error = progress(held, *find_communicator(held, handle));
    return ncclSuccess;
  });
}
ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
  return nccl_call("ncclCommCount", Kind::asks, [&](Lock& held) {
    *count = find_ready_communicator(held, handle)->world->size;
    return ncclSuccess;
  });
}
ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
  return nccl_call("ncclCommUserRank", Kind::asks, [&](Lock& held) {
    *rank = find_ready_communicator(held, handle)->rank;
    return ncclSuccess;
  });
}
ncclResult_t ncclCommCuDevice(const ncclComm_t handle, int* device) {
  return nccl_call("ncclCommCuDevice", Kind::asks, [&](Lock& held) {
    *device = find_ready_communicator(held, handle)->device;
    return ncclSuccess;
  });
}
const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO)";
    case ncclInternalError: return "internal error - please report this issue";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}
const char* ncclGetLastError(ncclComm_t handle) {
  Hidden hidden;
  const Lock held = lock();
  if (const auto communicator = communicators().find(handle)) {
    if (!communicator->last_error.empty()) thread_error() = communicator->last_error;
  }
  return thread_error().c_str();
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t handle) {
  return nccl_call("ncclRedOpCreatePreMulSum", Kind::uses, [&](Lock& held) {
    if (!op || !scalar || bytes_of(type) == 0) return ncclInvalidArgument;
    const auto communicator = find_ready_communicator(held, handle);
    int number = ncclNumOps;
    while (communicator->reductions.count(number) != 0) ++number;
    Reduction made{.op = ncclSum, .scales = true, .scalar_type = type};
    if (residence == ncclScalarDevice) {
      made.device_scalar = scalar;
    } else {
      std::memcpy(made.scalar, scalar, bytes_of(type));
    }
    communicator->reductions[number] = made;
    *op = static_cast<ncclRedOp_t>(number);
    return ncclSuccess;
  });
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t handle) {
  return nccl_call("ncclRedOpDestroy", Kind::destroys, [&](Lock& held) {
    const auto communicator = find_communicator(held, handle);
    return communicator->reductions.erase(op) == 1 ? ncclSuccess : ncclInvalidArgument;
  });
}

ncclResult_t ncclMemAlloc(void** pointer, std::size_t bytes) {
  return nccl_call("ncclMemAlloc", Kind::uses, [&](Lock& held) {
    if (!pointer) return ncclInvalidArgument;
    *pointer = allocate(held, bytes, current_device(), MemoryKind::device, 4096);
    return ncclSuccess;
  });
}
ncclResult_t ncclMemFree(void* pointer) {
  return nccl_call("ncclMemFree", Kind::destroys, [&](Lock& held) {
    if (!pointer) return ncclSuccess;
    free_after_all_work(held, pointer, MemoryKind::device);
    return ncclSuccess;
  });
}
ncclResult_t ncclCommRegister(const ncclComm_t handle, void* buffer, std::size_t bytes,
                              void** registration) {
  return nccl_call("ncclCommRegister", Kind::uses, [&](Lock& held) {
    return register_buffer(held, handle, buffer, bytes, registration);
  });
}
ncclResult_t ncclCommDeregister(const ncclComm_t handle, void* registration) {
  return nccl_call("ncclCommDeregister", Kind::destroys,
                   [&](Lock& held) { return unregister_buffer(held, handle, registration); });
}
ncclResult_t ncclCommWindowRegister(ncclComm_t handle, void* buffer, std::size_t bytes,
                                    ncclWindow_t* window, int flags) {
  return nccl_call("ncclCommWindowRegister", Kind::uses, [&](Lock& held) {
    if (flags & ~NCCL_WIN_COLL_SYMMETRIC) return ncclInvalidArgument;
    if (reinterpret_cast<std::uintptr_t>(buffer) % NCCL_WIN_REQUIRED_ALIGNMENT != 0) {
      return ncclInvalidArgument;
    }
    void* registration = nullptr;
    const ncclResult_t result = register_buffer(held, handle, buffer, bytes, &registration);
    if (result != ncclSuccess) return result;
    // One that does not block would be told later, which nobody here asks.
    Communicator& communicator = *find_communicator(held, handle);
    if (communicator.blocking) meet(held, communicator, "window");
    *window = reinterpret_cast<ncclWindow_t>(registration);
    return ncclSuccess;
  });
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t handle, ncclWindow_t window) {
  return nccl_call("ncclCommWindowDeregister", Kind::destroys,
                   [&](Lock& held) { return unregister_buffer(held, handle, window); });
}
}
