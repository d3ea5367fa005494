// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The blob of rank 0 by way of TCP. Includes base/, comm/launch/ and POSIX.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <zero/base/error.hpp>
#include <zero/comm/launch/detail/socket.hpp>
#include <zero/comm/launch/detail/tcp_host.hpp>
#include <zero/comm/launch/detail/tcp_message.hpp>
#include <zero/comm/launch/share.hpp>

namespace zero {

/// Where ranks meet that reach rank 0 by TCP.
struct TcpRendezvous {
  std::string address = {};  ///< of rank 0, a name or a number; rank 0 listens at nothing else
  std::uint16_t port = 0;    // where rank 0 listens
  /// What ranks of this run know and others do not: 1 to 64 bytes. It keeps other runs and
  /// strangers out, not who reads along: it is sent as it is.
  std::string token = {};
  std::chrono::milliseconds time_limit = std::chrono::seconds(30);  // for all ranks to come
};

namespace detail {

/// Every other rank: tries until rank 0 answers.
inline LaunchBlob join_over_tcp(const TcpRendezvous& where, std::size_t rank, std::size_t size) {
  using Clock = std::chrono::steady_clock;
  using std::chrono::milliseconds;
  TcpHello hello;
  hello.rank = static_cast<std::uint32_t>(rank);
  hello.size = static_cast<std::uint32_t>(size);
  hello.set_token(where.token);
  // Rank 0, which knows who is missing, gives up first.
  const Clock::time_point end = Clock::now() + where.time_limit +
                                std::max<milliseconds>(where.time_limit / 4, milliseconds(500));
  const auto left = [end] { return std::chrono::duration_cast<milliseconds>(end - Clock::now()); };
  const std::string who = "share_by_tcp: rank " + std::to_string(rank) + " of " +
                          std::to_string(size) + ", joining at " +
                          text_of_address(where.address, where.port) + ": ";
  std::string why;
  while (left().count() > 0) {
    if (const Socket socket = connect_to(where.address, where.port, left(), why)) {
      socket.send(hello);
      TcpReply reply;
      std::size_t got = 0;
      auto* const bytes = reinterpret_cast<char*>(&reply);
      why = "who answers there says nothing";
      while (got < sizeof reply && socket.wait(POLLIN, left())) {
        if (socket.receive(bytes + got, sizeof reply - got, got) == Socket::State::closed) break;
      }
      if (got != 0) why = "who answers there is no rank 0 of this library";
      if (got == sizeof reply && reply.magic == TcpReply::right_magic) {
        if (reply.refused == 0) return reply.blob;
        throw CommunicatorError(who + "rank 0 refused: " + reply.text() + ".");
      }
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
  throw TimeoutError(who + "no answer within " + std::to_string(where.time_limit.count()) +
                     " ms: " + why + ". See that rank 0 runs and listens there.");
}

}  // namespace detail

/// The blob of rank 0, on all ranks, over TCP: rank 0 listens until all others have come, and then
/// answers all of them. Others than ranks may connect and say what they like, or nothing.
///
/// Errors:  ContractError for a rendezvous without address, token or time, or a rank that is none;
///          CommunicatorError on all ranks that are there if two say that they are the same one, or
///          if sizes differ, on rank 0 if it cannot listen, and on a rank whose token is another
///          one; TimeoutError, which names who is missing, if not all come in time.
inline LaunchBlob share_by_tcp(const TcpRendezvous& where, std::size_t rank, std::size_t size,
                               const LaunchBlob& mine) {
  if (where.address.empty() || where.port == 0 || where.token.empty() ||
      where.token.size() > detail::TcpHello::most_token_bytes || where.time_limit.count() <= 0 ||
      rank >= size) {
    throw ContractError("share_by_tcp: rank " + std::to_string(rank) + " of " +
                        std::to_string(size) + " at " +
                        detail::text_of_address(where.address, where.port) + ", a token of " +
                        std::to_string(where.token.size()) + " bytes, time_limit " +
                        std::to_string(where.time_limit.count()) +
                        " ms. Pass an address, a port, a token of 1 to 64 bytes, a positive time "
                        "and a rank below the size.");
  }
  if (rank != 0) return detail::join_over_tcp(where, rank, size);
  if (size > 1) {
    detail::TcpHost host(where.address, where.port, where.token, size);
    host.serve(mine, where.time_limit);
  }
  return mine;
}

}  // namespace zero
