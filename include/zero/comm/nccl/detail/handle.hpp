// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// An ncclComm_t and how errors name it. Includes comm/detail/text.hpp and
// comm/nccl/detail/check.hpp.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <zero/comm/detail/text.hpp>
#include <zero/comm/detail/world.hpp>
#include <zero/comm/nccl/detail/check.hpp>

namespace zero::detail {

class NcclCaptured;

/// One ncclComm_t among those of a world. Its address is what the world knows it by.
struct NcclHandle {
  ncclComm_t comm = nullptr;  // null: not made yet, or ended
  bool owned = true;          // otherwise the user's
  std::size_t rank = 0, size = 1;
  NcclCaptured* captured = nullptr;

  /// "on rank 1 of 4"
  std::string text() const {
    return "on rank " + std::to_string(rank) + " of " + std::to_string(size);
  }
};

/// Whose collective it is.
struct NcclWhere {
  const Call& call;
  const NcclHandle& handle;

  std::string text() const { return text_of(call) + " " + handle.text(); }
};

/// ": rank 2 issued less than others", or nothing.
inline std::string text_of_ranks_behind(const World& board) {
  std::uint64_t most = 0;
  for (std::size_t rank = 0; rank < board.ranks(); ++rank) {
    most = std::max(most, board.history(rank).issued());
  }
  std::size_t count = 0;
  const auto behind = [&](std::size_t rank) {
    const bool is = board.history(rank).issued() < most;
    count += is ? 1 : 0;
    return is;
  };
  const std::string ranks = text_of_ranks(board.ranks(), behind);
  return count == 0 ? "" : ": " + ranks + " issued less than others";
}

/// The state of a communicator, or why it cannot be asked for. One that ended has no errors.
inline ncclResult_t async_state(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t code = ncclCommGetAsyncError(comm, &state);
  return code == ncclSuccess ? state : code;
}

}  // namespace zero::detail
