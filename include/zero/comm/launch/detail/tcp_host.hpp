// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Rank 0 of a rendezvous over TCP. Includes base/ and comm/launch/detail/{socket,tcp_message}.hpp.
#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/comm/launch/detail/socket.hpp>
#include <zero/comm/launch/detail/tcp_message.hpp>

namespace zero::detail {

/// Waits for all ranks and answers them together, so that all get the blob or all learn why not.
///
/// Who connects is a stranger until it has said a whole hello with the right token. There is room
/// for a few; when more come, the one that has been there longest must go, and a rank comes again.
class TcpHost {
 public:
  using Clock = std::chrono::steady_clock;

  TcpHost(const std::string& address, std::uint16_t port, std::string_view token, std::size_t size)
      : size_(size),
        listener_(listen_at(address, port)),
        place_(text_of_address(address, this->port())) {
    expected_.set_token(token);
  }

  std::uint16_t port() const { return port_of(listener_); }

  /// Returns when all other ranks have been answered.
  void serve(const LaunchBlob& blob, std::chrono::milliseconds limit) {
    const Clock::time_point end = Clock::now() + limit;
    while (static_cast<std::size_t>(std::count_if(guests_.begin(), guests_.end(), is_rank)) + 1 <
           size_) {
      if (Clock::now() > end) {
        give_up<TimeoutError>(text_of_missing() + " did not come to " + place_ + " within " +
                              std::to_string(limit.count()) +
                              " ms. See that they run, with this address, port and token");
      }
      wait(std::min<Clock::duration>(end - Clock::now(), std::chrono::milliseconds(50)));
      welcome();
      for (Guest& guest : guests_) listen_to(guest);
      std::erase_if(guests_, [](const Guest& guest) { return !guest.socket; });
    }
    TcpReply reply;
    reply.blob = blob;
    answer(reply);
  }

 private:
  static constexpr std::size_t most_strangers = 64;

  struct Guest {
    explicit Guest(Socket made) : socket(std::move(made)) {}

    Socket socket;
    std::size_t got = 0;
    TcpHello hello{};
    std::optional<std::size_t> rank{};
  };
  static bool is_rank(const Guest& guest) { return guest.rank.has_value(); }

  void wait(Clock::duration limit) const {
    std::vector<pollfd> all(1, {listener_.number(), POLLIN, 0});
    for (const Guest& guest : guests_) all.push_back({guest.socket.number(), POLLIN, 0});
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(limit).count();
    ::poll(all.data(), all.size(), static_cast<int>(std::max<std::int64_t>(ms, 0)));
  }

  void welcome() {
    for (std::size_t i = 0; i < most_strangers; ++i) {
      Socket socket(::accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) return;
      if (guests_.size() >= size_ + most_strangers) {
        guests_.erase(std::find_if_not(guests_.begin(), guests_.end(), is_rank));
      }
      guests_.emplace_back(std::move(socket));
    }
  }

  void listen_to(Guest& guest) {
    if (is_rank(guest)) {  // it has no more to say, but it may go, and come again
      char any = 0;
      std::size_t got = 0;
      if (guest.socket.receive(&any, 1, got) == Socket::State::closed) guest.socket = Socket();
      return;
    }
    const Socket::State state = guest.socket.receive(
        reinterpret_cast<char*>(&guest.hello) + guest.got, sizeof(TcpHello) - guest.got, guest.got);
    if (guest.got == sizeof(TcpHello)) {
      examine(guest);
    } else if (state == Socket::State::closed) {
      guest.socket = Socket();
    }
  }

  void examine(Guest& guest) {
    const TcpHello& hello = guest.hello;
    if (!hello.is_one()) {
      guest.socket = Socket();
    } else if (!hello.same_token(expected_)) {
      TcpReply reply;
      reply.refuse("its token is not that of this run");
      guest.socket.send(reply);
      guest.socket = Socket();
    } else {
      const std::string who = "a process says that it is rank " + std::to_string(hello.rank) +
                              " of " + std::to_string(hello.size);
      if (hello.size != size_ || hello.rank == 0 || hello.rank >= size_) {
        guest.rank = hello.rank;  // so that it is told as well
        give_up<CommunicatorError>(who + ", but there are " + std::to_string(size_) +
                                   " ranks and rank 0 is here. Start all with the same size");
      }
      for (const Guest& other : guests_) {
        if (other.rank != hello.rank || !other.socket) continue;
        guest.rank = hello.rank;
        give_up<CommunicatorError>(who + ", but another one says so too. Start each rank once");
      }
      guest.rank = hello.rank;
    }
  }

  std::string text_of_missing() const {
    std::string text;
    std::size_t count = 0;
    for (std::size_t rank = 1; rank < size_; ++rank) {
      const bool here = std::any_of(guests_.begin(), guests_.end(),
                                    [rank](const Guest& guest) { return guest.rank == rank; });
      if (here) continue;
      if (++count > 16) return "ranks " + text + " and others";
      text += (count == 1 ? "" : ", ") + std::to_string(rank);
    }
    return (count == 1 ? "rank " : "ranks ") + text;
  }

  void answer(const TcpReply& reply) const {
    for (const Guest& guest : guests_) {
      if (is_rank(guest) && guest.socket) guest.socket.send(reply);
    }
  }

  template <class Failure>
  [[noreturn]] void give_up(const std::string& why) {
    TcpReply reply;
    reply.refuse(why);
    answer(reply);
    throw Failure("share_by_tcp: " + why + ".");
  }

  std::size_t size_;
  Socket listener_;
  std::string place_;
  TcpHello expected_;
  std::vector<Guest> guests_;
};

}  // namespace zero::detail
