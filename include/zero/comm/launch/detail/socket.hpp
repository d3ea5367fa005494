// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// TCP sockets that close themselves and never block. Includes base/ and POSIX.
#pragma once

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <zero/base/error.hpp>

namespace zero::detail {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int number) : number_(number) {}
  Socket(Socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Socket() {
    if (number_ >= 0) ::close(number_);
  }

  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }

  enum class State { open, closed };
  /// Takes what has come, up to `bytes`; adds their number to `got`.
  State receive(void* to, std::size_t bytes, std::size_t& got) const {
    for (;;) {
      const ssize_t count = ::recv(number_, to, bytes, MSG_DONTWAIT);
      if (count > 0) got += static_cast<std::size_t>(count);
      if (count > 0) return State::open;
      if (count == 0) return State::closed;
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? State::open : State::closed;
    }
  }
  /// Sends a message that the system has room for; one that it has none for is lost.
  template <class Message>
  void send(const Message& message) const {
    while (::send(number_, &message, sizeof(Message), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
           errno == EINTR) {}
  }
  /// Waits until there is something to read, or to write, or the limit is over.
  bool wait(short events, std::chrono::milliseconds limit) const {
    pollfd what{number_, events, 0};
    return ::poll(&what, 1, static_cast<int>(std::max<std::int64_t>(limit.count(), 0))) > 0;
  }

 private:
  int number_ = -1;
};

/// "10.0.0.1:29500"
inline std::string text_of_address(const std::string& address, std::uint16_t port) {
  return address + ":" + std::to_string(port);
}

/// Calls f(addrinfo) for each meaning of an address until it returns true. Returns "" if it did,
/// else why there is none.
template <class F>
std::string for_each_meaning(const std::string& address, std::uint16_t port, F f) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) return ::gai_strerror(code);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  std::string why = "no address";
  for (const addrinfo* meaning = list.get(); meaning != nullptr; meaning = meaning->ai_next) {
    if (f(*meaning)) return "";
    why = std::strerror(errno);
  }
  return why;
}

/// A socket that listens at this address only. Errors: CommunicatorError.
inline Socket listen_at(const std::string& address, std::uint16_t port) {
  Socket made;
  const std::string why = for_each_meaning(address, port, [&](const addrinfo& meaning) {
    Socket socket(::socket(meaning.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int yes = 1;
    if (!socket || ::setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        ::bind(socket.number(), meaning.ai_addr, meaning.ai_addrlen) != 0 ||
        ::listen(socket.number(), SOMAXCONN) != 0) {
      return false;
    }
    made = std::move(socket);
    return true;
  });
  if (why.empty()) return made;
  throw CommunicatorError("share_by_tcp: rank 0 cannot listen at " +
                          text_of_address(address, port) + ": " + why +
                          ". Pass an address of the machine of rank 0 and a port that "
                          "is free there.");
}

/// The port that a socket listens at.
inline std::uint16_t port_of(const Socket& socket) {
  sockaddr_storage own{};
  socklen_t bytes = sizeof own;
  if (::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&own), &bytes) != 0) return 0;
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                         : reinterpret_cast<const sockaddr_in&>(own).sin_port);
}

/// A connection, or none and why.
inline Socket connect_to(const std::string& address, std::uint16_t port,
                         std::chrono::milliseconds limit, std::string& why) {
  Socket made;
  why = for_each_meaning(address, port, [&](const addrinfo& meaning) {
    Socket socket(::socket(meaning.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return false;
    if (::connect(socket.number(), meaning.ai_addr, meaning.ai_addrlen) != 0) {
      if (errno != EINPROGRESS) return false;
      int code = ETIMEDOUT;
      socklen_t bytes = sizeof code;
      if (socket.wait(POLLOUT, limit)) {
        ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &code, &bytes);
      }
      errno = code;
      if (code != 0) return false;
    }
    made = std::move(socket);
    return true;
  });
  return made;
}

}  // namespace zero::detail
