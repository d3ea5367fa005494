// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The communicator of one rank alone. Includes comm/detail/shared_memory.hpp.
#pragma once

#include <chrono>
#include <memory>
#include <utility>
#include <zero/comm/communicator.hpp>
#include <zero/comm/detail/shared_memory.hpp>

namespace zero {

/// One rank: the same code as for many, hence the same factors, checks and errors.
class SelfCommunicator : public detail::SharedMemory {
 public:
  using Stream = HostStream;  // on which collectives may be enqueued

  SelfCommunicator()
      : SharedMemory(std::make_shared<detail::Member>(
            std::make_shared<detail::Group>(
                std::make_shared<detail::World>(1, std::chrono::seconds(30)), 1),
            0, 0)) {}

  /// Itself: there is nobody else.
  SelfCommunicator split(int color, int key) const {
    return SelfCommunicator(split_member(color, key));
  }

 private:
  explicit SelfCommunicator(std::shared_ptr<detail::Member> member)
      : SharedMemory(std::move(member)) {}
};

static_assert(Communicator<SelfCommunicator>);

}  // namespace zero
