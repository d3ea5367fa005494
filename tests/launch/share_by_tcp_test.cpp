// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Ranks that meet over TCP, among strangers.
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <vector>
#include <zero/comm/launch/share_by_tcp.hpp>

BOOST_AUTO_TEST_SUITE(share_by_tcp_test)

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using zero::LaunchBlob;
using zero::TcpRendezvous;
using zero::detail::Socket;
using zero::detail::TcpHello;

constexpr auto at_once = 20s;
const std::string address = "127.0.0.1";

LaunchBlob blob() {
  LaunchBlob made{};
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<std::byte>(7 * i + 1);
  return made;
}

/// A port that is free now.
std::uint16_t free_port() { return zero::detail::port_of(zero::detail::listen_at(address, 0)); }

Socket connected(std::uint16_t port) {
  for (int i = 0; i < 500; ++i) {
    std::string why;
    if (Socket socket = zero::detail::connect_to(address, port, 1s, why)) return socket;
    std::this_thread::sleep_for(10ms);
  }
  return {};
}

/// What a process caught: "timeout: ...", "comm: ...", "contract: ..."; "blob" if it got that.
template <class F>
std::string outcome(F f) {
  try {
    return f() == blob() ? "blob" : "another blob";
  } catch (const zero::TimeoutError& error) {
    return std::string("timeout: ") + error.what();
  } catch (const zero::CommunicatorError& error) {
    return std::string("comm: ") + error.what();
  } catch (const std::exception& error) { return std::string("contract: ") + error.what(); }
}

struct Process {
  std::size_t rank;
  std::size_t size;
  std::string token = "of this run";
  std::chrono::milliseconds late = 0ms;
};

/// The outcomes of processes, each on a thread; `beside(port)` runs meanwhile.
template <class F>
std::vector<std::string> run(const std::vector<Process>& processes, std::chrono::milliseconds limit,
                             F beside) {
  const std::uint16_t port = free_port();
  std::vector<std::string> all(processes.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < processes.size(); ++i) {
      threads.emplace_back([&, i] {
        const Process& process = processes[i];
        std::this_thread::sleep_for(process.late);
        const TcpRendezvous where = {address, port, process.token, limit};
        all[i] = outcome([&] {
          return zero::share_by_tcp(where, process.rank, process.size,
                                    process.rank == 0 ? blob() : LaunchBlob{});
        });
      });
    }
    beside(port);
  }
  return all;
}
std::vector<std::string> run(const std::vector<Process>& processes,
                             std::chrono::milliseconds limit) {
  return run(processes, limit, [](std::uint16_t) {});
}

void contains(const std::string& text, const std::string& part) {
  BOOST_TEST(text.find(part) != std::string::npos, text << " lacks " << part);
}

BOOST_AUTO_TEST_CASE(all_ranks_get_the_blob_of_rank_0_whoever_comes_first) {
  BOOST_TEST((run({{0, 4}, {1, 4}, {2, 4, "of this run", 30ms}, {3, 4}}, 100s) ==
              std::vector<std::string>(4, "blob")));
  BOOST_TEST((run({{0, 3, "of this run", 60ms}, {1, 3}, {2, 3}}, 100s) ==
              std::vector<std::string>(3, "blob")));
  BOOST_TEST((run({{0, 1}}, 100s) == std::vector<std::string>(1, "blob")));
}

BOOST_AUTO_TEST_CASE(strangers_who_say_anything_or_nothing_stall_nobody) {
  std::mt19937 random(3);
  const auto begin = Clock::now();
  std::vector<Socket> silent;  // to the end
  const auto all = run({{0, 3}, {1, 3}, {2, 3, "of this run", 300ms}}, 100s, [&](auto port) {
    for (int i = 0; i < 80; ++i) silent.push_back(connected(port));  // more than there is room for
    for (int i = 0; i < 100; ++i) {
      const Socket socket = connected(port);
      std::string bytes(random() % 300, ' ');
      for (char& byte : bytes) byte = static_cast<char>(random());
      if (i % 3 == 0) bytes = "GET / HTTP/1.1\r\n\r\n";
      if (i % 7 == 0) bytes = "zerojoin" + bytes;
      if (socket) ::send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
  });
  BOOST_TEST((all == std::vector<std::string>(3, "blob")));
  BOOST_TEST((Clock::now() - begin < at_once));
}

BOOST_AUTO_TEST_CASE(a_hello_may_come_byte_by_byte_and_a_rank_may_come_again) {
  const auto all = run({{0, 4}, {1, 4}, {2, 4, "of this run", 250ms}, {3, 4, "of this run", 300ms}},
                       100s, [&](auto port) {
                         TcpHello hello;
                         hello.rank = 2;
                         hello.size = 4;
                         hello.set_token("of this run");
                         const Socket dies = connected(port);
                         const auto* const bytes = reinterpret_cast<const char*>(&hello);
                         for (std::size_t i = 0; i < sizeof hello; ++i) {
                           ::send(dies.number(), bytes + i, 1, MSG_NOSIGNAL);
                           if (i % 16 == 0) std::this_thread::sleep_for(1ms);
                         }
                         std::this_thread::sleep_for(50ms);
                       });  // and then the connection is closed, before rank 2 comes
  BOOST_TEST((all == std::vector<std::string>(4, "blob")));
}

BOOST_AUTO_TEST_CASE(a_wrong_token_is_refused_and_disturbs_nobody) {
  const auto all = run({{0, 2},
                        {1, 2, "of this run", 200ms},
                        {1, 2, "of another"},
                        {1, 2, "of this ru"},
                        {1, 2, "of this run."}},
                       100s);
  BOOST_TEST(all[0] == "blob");
  BOOST_TEST(all[1] == "blob");
  for (const std::size_t stranger : {2U, 3U, 4U}) {
    BOOST_TEST(all[stranger].starts_with("comm: share_by_tcp: rank 1 of 2, joining at 127.0.0.1:"));
    contains(all[stranger], "rank 0 refused: its token is not that of this run");
  }
}

BOOST_AUTO_TEST_CASE(two_of_the_same_rank_are_an_error_on_all) {
  const auto all =
      run({{0, 4}, {1, 4}, {2, 4, "of this run", 50ms}, {2, 4, "of this run", 100ms}}, 100s);
  for (const std::string& text : all) {
    BOOST_TEST(text.starts_with("comm: "), text);
    contains(text, "a process says that it is rank 2 of 4, but another one says so too");
  }
}

BOOST_AUTO_TEST_CASE(another_size_or_a_second_rank_0_is_an_error_on_all) {
  const auto sizes = run({{0, 3}, {1, 3}, {2, 4, "of this run", 100ms}}, 100s);
  for (const std::string& text : sizes) {
    contains(text, "a process says that it is rank 2 of 4, but there are 3 ranks");
  }
  const auto zeros = run({{0, 2}, {0, 2, "of this run", 50ms}}, 500ms);
  BOOST_TEST(zeros[0].starts_with("timeout: "));
  contains(zeros[1], "comm: share_by_tcp: rank 0 cannot listen at 127.0.0.1:");
  contains(zeros[1], "Address already in use");
}

BOOST_AUTO_TEST_CASE(who_is_missing_is_named_to_all_in_time) {
  const auto begin = Clock::now();
  const auto all = run({{0, 4}, {2, 4}}, 300ms);
  contains(all[0], "timeout: share_by_tcp: ranks 1, 3 did not come to 127.0.0.1:");
  contains(all[0], "within 300 ms");
  contains(all[1], "rank 0 refused: ranks 1, 3 did not come");
  const auto without_0 = run({{1, 2}}, 200ms);
  contains(without_0[0], "timeout: share_by_tcp: rank 1 of 2, joining at 127.0.0.1:");
  contains(without_0[0], "no answer within 200 ms: Connection refused");
  BOOST_TEST((Clock::now() - begin < at_once));
}

BOOST_AUTO_TEST_CASE(who_answers_but_is_not_rank_0_is_not_believed) {
  const Socket other = zero::detail::listen_at(address, 0);
  const TcpRendezvous where = {address, zero::detail::port_of(other), "of this run", 200ms};
  std::atomic<bool> ended = false;
  std::jthread server([&] {  // says the hello back, or something else
    while (!ended) {
      if (!other.wait(POLLIN, 10ms)) continue;
      const Socket guest(::accept(other.number(), nullptr, nullptr));
      const std::string bytes = "zerojoin" + std::string(600, 'x');
      ::send(guest.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      std::this_thread::sleep_for(5ms);
    }
  });
  const std::string text = outcome([&] { return zero::share_by_tcp(where, 1, 2, {}); });
  ended = true;
  contains(text, "timeout: ");
  contains(text, "who answers there is no rank 0 of this library");
}

BOOST_AUTO_TEST_CASE(rank_0_listens_at_the_given_address_only) {
  const zero::detail::TcpHost host("127.0.0.1", 0, "of this run", 2);
  std::string why;
  BOOST_TEST(!!zero::detail::connect_to("127.0.0.1", host.port(), 1s, why));
  BOOST_TEST(!zero::detail::connect_to("127.0.0.2", host.port(), 1s, why));
  const TcpRendezvous elsewhere = {"192.0.2.1", 29500, "of this run", 200ms};
  contains(outcome([&] { return zero::share_by_tcp(elsewhere, 0, 2, {}); }),
           "comm: share_by_tcp: rank 0 cannot listen at 192.0.2.1:29500: Cannot assign");
}

BOOST_AUTO_TEST_CASE(what_is_no_rendezvous_is_refused) {
  const TcpRendezvous right = {address, 29500, "of this run", 1s};
  TcpRendezvous wrong[] = {right, right, right, right, right};
  wrong[0].address = "";
  wrong[1].port = 0;
  wrong[2].token = "";
  wrong[3].token = std::string(65, 'x');
  wrong[4].time_limit = 0ms;
  for (const TcpRendezvous& where : wrong) {
    BOOST_CHECK_THROW(zero::share_by_tcp(where, 0, 2, {}), zero::ContractError);
  }
  BOOST_CHECK_THROW(zero::share_by_tcp(right, 2, 2, {}), zero::ContractError);
}

BOOST_AUTO_TEST_SUITE_END()
