// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <algorithm>
#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>
#include <zero/device/host_stream.hpp>

#include "conformance.hpp"

BOOST_AUTO_TEST_SUITE(host_stream_test)

template <zero::StreamMode mode>
struct HostMaker {
  using Device = zero::HostDevice;
  static constexpr bool deferred = mode != zero::StreamMode::inline_run;
  static Device& make(std::optional<Device>& storage, std::size_t capacity,
                      std::chrono::milliseconds limit) {
    return storage.emplace(zero::HostDeviceOptions{
        .mode = mode, .seed = 1, .time_limit = limit, .queue_capacity = capacity});
  }
  template <class F>
  static void enqueue(zero::HostStream& stream, F&& callable) {
    stream.enqueue(std::forward<F>(callable));
  }
  static void gate(zero::HostStream& stream, const std::atomic<bool>& open) {
    stream.enqueue("gate", [&open] { return open.load(); });
  }
};

using Inline = HostMaker<zero::StreamMode::inline_run>;
using Asynchronous = HostMaker<zero::StreamMode::asynchronous>;
using Shuffled = HostMaker<zero::StreamMode::shuffled>;
using Makers = std::tuple<Inline, Asynchronous, Shuffled>;
using DeferredMakers = std::tuple<Asynchronous, Shuffled>;

#include "callable_cases.hpp"
#include "conformance_cases.hpp"

using conformance::mentions;
using conformance::milliseconds;
using zero::HostDevice;
using zero::HostEvent;
using zero::HostStream;
using zero::StreamMode;

BOOST_AUTO_TEST_SUITE(shuffled)

/// Runs 3 streams of 6 tasks under a seed; returns the order as one letter per stream.
std::string order_of(std::uint64_t seed) {
  HostDevice device({.mode = StreamMode::shuffled, .seed = seed});
  std::string order;
  for (const char* name : {"a", "b", "c"}) {
    auto& stream = device.make_stream(name);
    for (int i = 0; i < 6; ++i) stream.enqueue(name, [&order, name] { order += name; });
  }
  device.synchronize();
  return order;
}

/// Two streams exchange values 4 times; returns whether the result is that of the right order.
bool exchange(std::uint64_t seed, bool waits) {
  HostDevice device({.mode = StreamMode::shuffled, .seed = seed});
  auto& a = device.make_stream("a");
  auto& b = device.make_stream("b");
  HostEvent a_done;
  HostEvent b_done;
  int x = 1;
  int expected = 1;
  for (int i = 0; i < 4; ++i) {
    a.wait(b_done);
    a.enqueue("double", [&x] { x *= 2; });
    a.record(a_done);
    if (waits || i != 2) b.wait(a_done);  // one wait of eight is missing
    b.enqueue("add", [&x] { x += 1; });
    b.record(b_done);
    expected = expected * 2 + 1;
  }
  device.synchronize();
  return x == expected;
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_order) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) BOOST_TEST(order_of(seed) == order_of(seed));
}

BOOST_AUTO_TEST_CASE(different_seeds_give_different_orders) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    orders.insert(order_of(seed));
    BOOST_TEST(std::ranges::count(order_of(seed), 'a') == 6);
  }
  BOOST_TEST(orders.size() > 60U);
}

BOOST_AUTO_TEST_CASE(a_missing_wait_gives_a_wrong_result_under_some_seeds) {
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) wrong += exchange(seed, false) ? 0 : 1;
  BOOST_TEST(wrong >= 20);
  BOOST_TEST_MESSAGE("a missing wait shows in " << wrong << " of 200 orders");
}

BOOST_AUTO_TEST_CASE(with_all_waits_no_seed_gives_a_wrong_result) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) BOOST_TEST(exchange(seed, true));
}

BOOST_AUTO_TEST_CASE(nothing_runs_before_somebody_waits) {
  HostDevice device({.mode = StreamMode::shuffled});
  auto& stream = device.make_stream("a");
  bool ran = false;
  stream.enqueue([&ran] { ran = true; });
  BOOST_TEST(!ran);
  stream.synchronize();
  BOOST_TEST(ran);
}

BOOST_AUTO_TEST_CASE(synchronize_may_leave_work_of_other_streams_queued) {
  int lagging = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    HostDevice device({.mode = StreamMode::shuffled, .seed = seed});
    auto& a = device.make_stream("a");
    auto& b = device.make_stream("b");
    int b_ran = 0;
    a.enqueue([] {});
    for (int i = 0; i < 4; ++i) b.enqueue([&b_ran] { ++b_ran; });
    a.synchronize();
    lagging += b_ran < 4 ? 1 : 0;
    b.synchronize();
    BOOST_TEST(b_ran == 4);
  }
  BOOST_TEST(lagging > 5);
  BOOST_TEST(lagging < 50);
}

BOOST_AUTO_TEST_CASE(an_inline_stream_waits_by_running_the_others) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    HostDevice device({.mode = StreamMode::shuffled, .seed = seed});
    auto& compute = device.make_inline_stream("compute");
    auto& gather = device.make_stream("gather");
    HostEvent gathered;
    HostEvent computed;
    int slot = 0;
    for (int unit = 1; unit < 10; ++unit) {
      gather.wait(computed);
      gather.enqueue("gather", [&slot, unit] { slot = unit; });
      gather.record(gathered);
      compute.wait(gathered);
      BOOST_TEST(slot == unit);
      compute.record(computed);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_task_of_a_shuffled_device_must_not_wait) {
  HostDevice device({.mode = StreamMode::shuffled});
  auto& a = device.make_stream("a");
  auto& b = device.make_stream("b");
  b.enqueue([] { return false; });
  a.enqueue([&b] { b.synchronize(); });
  BOOST_CHECK_EXCEPTION(a.synchronize(), zero::ContractError,
                        [](const auto& error) { return mentions(error, "'b'"); });
}

/// A rendezvous of all ranks, as a collective is: arrives once, then polls for the others.
struct Meeting {
  std::atomic<int>* arrived;
  int expected;
  bool here = false;
  bool operator()() {
    if (!here) ++*arrived;
    here = true;
    return *arrived >= expected;
  }
};

BOOST_AUTO_TEST_CASE_TEMPLATE(ranks_on_threads_meet_in_polled_tasks, Maker, Makers) {
  constexpr int ranks = 3;
  constexpr int rounds = 40;
  std::array<std::atomic<int>, rounds> first{};
  std::array<std::atomic<int>, rounds> second{};
  std::array<std::string, ranks> errors;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        std::optional<HostDevice> storage;
        HostDevice& device = Maker::make(storage, 16, milliseconds(10'000));
        auto& a = device.make_stream("a");
        auto& b = device.make_stream("b");
        auto& compute = device.make_inline_stream("compute");
        HostEvent a_done;
        for (std::size_t i = 0; i < rounds; ++i) {
          a.enqueue("first", Meeting{&first[i], ranks});
          a.record(a_done);
          if (i % 4 == 3) b.wait(a_done);
          b.enqueue("second", Meeting{&second[i], ranks});
          if (i % 8 == 7) compute.wait(a_done);
        }
        device.synchronize();
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& error : errors) BOOST_TEST(error == "");
  BOOST_TEST(first[rounds - 1].load() == ranks);
  BOOST_TEST(second[rounds - 1].load() == ranks);
}

BOOST_AUTO_TEST_CASE(polling_inline_work_lets_the_other_streams_of_the_device_run) {
  HostDevice device({.mode = StreamMode::shuffled});
  auto& compute = device.make_inline_stream("compute");
  auto& gather = device.make_stream("gather");
  bool open = false;
  gather.enqueue([&open] { open = true; });
  compute.enqueue("poll", [&open] { return open; });
  BOOST_TEST(open);
  compute.synchronize();
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(asynchronous)

BOOST_AUTO_TEST_CASE(work_runs_on_a_thread_of_the_stream) {
  HostDevice device({.mode = StreamMode::asynchronous});
  auto& a = device.make_stream("a");
  auto& b = device.make_stream("b");
  std::thread::id of_a;
  std::thread::id of_b;
  a.enqueue([&of_a] { of_a = std::this_thread::get_id(); });
  b.enqueue([&of_b] { of_b = std::this_thread::get_id(); });
  device.synchronize();
  BOOST_TEST((of_a != of_b));
  BOOST_TEST((of_a != std::this_thread::get_id()));
  BOOST_TEST((of_b != std::this_thread::get_id()));
}

BOOST_AUTO_TEST_CASE(an_inline_stream_waits_on_the_calling_thread) {
  HostDevice device({.mode = StreamMode::asynchronous});
  auto& compute = device.make_inline_stream("compute");
  auto& gather = device.make_stream("gather");
  HostEvent gathered;
  HostEvent computed;
  int slot = 0;
  for (int unit = 1; unit < 200; ++unit) {
    gather.wait(computed);
    gather.enqueue("gather", [&slot, unit] { slot = unit; });
    gather.record(gathered);
    compute.wait(gathered);
    BOOST_REQUIRE_EQUAL(slot, unit);
    compute.record(computed);
  }
}

BOOST_AUTO_TEST_CASE(several_threads_may_enqueue_on_one_stream) {
  HostDevice device({.mode = StreamMode::asynchronous, .queue_capacity = 2});
  auto& stream = device.make_stream("a");
  std::uint64_t sum = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      HostEvent event;
      for (int i = 0; i < 500; ++i) stream.enqueue([&sum] { ++sum; });
      stream.record(event);
      event.synchronize();
    });
  }
  for (auto& thread : threads) thread.join();
  stream.synchronize();
  BOOST_TEST(sum == 2000U);
}

BOOST_AUTO_TEST_CASE(one_event_is_used_by_several_threads) {
  HostDevice device({.mode = StreamMode::asynchronous});
  HostEvent event;
  std::vector<std::thread> threads;
  std::atomic<int> ran{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, &stream = device.make_stream("a")] {
      for (int i = 0; i < 200; ++i) {
        stream.wait(event);
        stream.enqueue([&ran] { ++ran; });
        stream.record(event);
        event.complete();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  device.synchronize();
  BOOST_TEST(ran.load() == 800);
}

BOOST_AUTO_TEST_CASE(the_host_gives_up_on_a_task_that_hangs) {
  std::atomic<bool> go_on{false};
  HostDevice device({.mode = StreamMode::asynchronous, .time_limit = milliseconds(60)});
  auto& stream = device.make_stream("copy");
  stream.enqueue("hang", [&go_on] {
    while (!go_on) std::this_thread::yield();
  });
  BOOST_CHECK_EXCEPTION(stream.synchronize(), zero::TimeoutError, [](const auto& error) {
    return mentions(error, "'copy'") && mentions(error, "'hang'");
  });
  go_on = true;
  stream.synchronize();
}

BOOST_AUTO_TEST_CASE(destruction_ends_while_a_task_waits_for_another_stream) {
  std::atomic<bool> waiting{false};
  const double seconds = conformance::seconds_of([&waiting] {
    HostDevice device({.mode = StreamMode::asynchronous, .queue_capacity = 1});
    auto& full = device.make_stream("full");
    auto& user = device.make_stream("user");
    full.enqueue("never", [] { return false; });
    user.enqueue([&] {
      waiting = true;
      full.enqueue([] {});
    });
    while (!waiting) std::this_thread::yield();
  });
  BOOST_TEST(seconds < 5.0);
}

BOOST_AUTO_TEST_CASE(a_callable_with_a_pause_is_not_slept_over) {
  struct Patient {
    std::atomic<int>* pauses;
    std::atomic<bool>* open;
    bool operator()() const { return *open; }
    void pause(std::chrono::nanoseconds limit) const {
      ++*pauses;
      std::this_thread::sleep_for(std::min(limit, std::chrono::nanoseconds(100'000)));
    }
  };
  std::atomic<int> pauses{0};
  std::atomic<bool> open{false};
  HostDevice device({.mode = StreamMode::asynchronous});
  auto& stream = device.make_stream("a");
  stream.enqueue("patient", Patient{&pauses, &open});
  while (pauses < 3) std::this_thread::yield();
  open = true;
  stream.synchronize();
  BOOST_TEST(pauses.load() >= 3);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_CASE(a_device_refuses_options_that_cannot_work) {
  BOOST_CHECK_THROW(HostDevice({.queue_capacity = 0}), zero::ContractError);
  BOOST_CHECK_THROW(HostDevice({.time_limit = milliseconds(0)}), zero::ContractError);
}

BOOST_AUTO_TEST_SUITE_END()
