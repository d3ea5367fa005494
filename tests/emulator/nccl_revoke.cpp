// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ncclCommRevoke: ends what is in flight and keeps the communicator, for ncclCommShrink.
#include "nccl.hpp"

using namespace emulator;

extern "C" {
ncclResult_t ncclCommRevoke(ncclComm_t handle, int flags) {
  return nccl_call("ncclCommRevoke", Kind::destroys, [&](Lock& held) {
    if (flags != NCCL_REVOKE_DEFAULT) return ncclInvalidArgument;
    const auto communicator = find_communicator(held, handle);
    communicator->aborted = true;
    communicator->connecting.clear();
    if (communicator->world) communicator->world->changed.notify_all();
    const auto finish = [communicator](Lock& inner) {
      wait_until_idle(inner, *communicator);
      communicator->aborted = false;
      communicator->finalised = true;  // takes no more transfers
      communicator->async = ncclSuccess;
      return ncclSuccess;
    };
    if (group_depth() == 0) return finish(held);
    at_group_end(finish);
    return ncclSuccess;
  });
}
}
