// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The collectives of ranks that share memory. Includes
// comm/detail/{collective_task,host_collectives}.hpp.
#pragma once

#include <memory>
#include <utility>
#include <zero/comm/detail/collective_task.hpp>
#include <zero/comm/detail/host_collectives.hpp>

namespace zero::detail {

/// What communicators in shared memory have in common.
class SharedMemory : public HostCollectives<CollectiveTask> {
 protected:
  using HostCollectives::HostCollectives;

  std::shared_ptr<Member> split_member(int color, int key) const {
    Split split{.color = color, .key = key};
    run({.collective = Collective::split, .out = &split});
    return std::make_shared<Member>(std::move(split.group), split.rank, member()->world_rank());
  }
};

}  // namespace zero::detail
