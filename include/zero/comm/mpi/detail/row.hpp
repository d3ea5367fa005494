// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Elements on their way to or from one peer, message after message. Includes
// comm/mpi/detail/mpi_world.hpp.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <zero/comm/mpi/detail/mpi_world.hpp>

namespace zero::detail {

/// A number of elements as a row of messages, in one direction, through two slots of memory. MPI
/// sees these only, so that the buffers of a collective that fails may be freed at once.
struct MpiRow {
  static constexpr std::size_t slot_count = 2;

  std::array<std::byte*, slot_count> slots{};
  std::array<MPI_Request, slot_count> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  std::size_t peer = 0;  // rank of the world
  int tag = 0;
  std::size_t elements = 0, element_bytes = 1, message_elements = 1;
  std::size_t posted = 0, ended = 0, used = 0;  // messages: given to MPI, done, taken by the reader

  void begin(std::size_t count, std::size_t bytes_each) {
    elements = count;
    element_bytes = bytes_each;
    posted = ended = used = 0;
  }
  std::size_t messages() const { return (elements + message_elements - 1) / message_elements; }
  std::byte* slot(std::size_t message) const { return slots[message % slot_count]; }
  std::size_t offset(std::size_t message) const {
    return message * message_elements * element_bytes;
  }
  std::size_t bytes(std::size_t message) const {
    return std::min(message_elements, elements - message * message_elements) * element_bytes;
  }

  /// Notes which messages MPI has done. Returns whether there are any.
  bool collect(MpiWorld& world) {
    const std::size_t before = ended;
    while (ended < posted && world.complete(requests[ended % slot_count])) ++ended;
    return ended != before;
  }
  /// Sends as much as there are slots for. Returns how many bytes.
  std::size_t send(MpiWorld& world, const std::byte* from) {
    std::size_t sent = 0;
    for (; posted < messages() && posted - ended < slot_count; ++posted) {
      std::memcpy(slot(posted), from + offset(posted), bytes(posted));
      world.send(slot(posted), bytes(posted), peer, tag, requests[posted % slot_count]);
      sent += bytes(posted);
    }
    return sent;
  }
  void receive(MpiWorld& world) {
    for (; posted < messages() && posted - used < slot_count; ++posted) {
      world.receive(slot(posted), bytes(posted), peer, tag, requests[posted % slot_count]);
    }
  }
};

}  // namespace zero::detail
