// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What streams promise that run callables, besides conformance_cases.hpp. Included within the test
// suite of a model; streams have enqueue(label, callable).

using namespace conformance;

BOOST_AUTO_TEST_CASE_TEMPLATE(polled_work_lets_other_streams_proceed, Maker, DeferredMakers) {
  Fixture<Maker> f;
  auto& a = f.device.make_stream("a");
  auto& b = f.device.make_stream("b");
  std::atomic<int> turn{0};
  for (int i = 0; i < 10; ++i) {
    a.enqueue("even", [&turn, i] { return turn == 2 * i; });
    a.enqueue("next", [&turn] { ++turn; });
    b.enqueue("odd", [&turn, i] { return turn == 2 * i + 1; });
    b.enqueue("next", [&turn] { ++turn; });
  }
  a.synchronize();
  b.synchronize();
  BOOST_TEST(turn.load() == 20);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_exception_surfaces_at_synchronize_and_drops_later_work, Maker,
                              Makers) {
  Fixture<Maker> f;
  auto& a = f.device.make_stream("a");
  auto& b = f.device.make_stream("b");
  typename Fixture<Maker>::Event event;
  std::atomic<int> ran{0};
  bool b_ran = false;
  a.enqueue("good", [&ran] { ++ran; });
  a.enqueue("bad", [] { throw std::runtime_error("the first"); });
  a.enqueue("bad", [] { throw std::runtime_error("the second"); });
  a.enqueue("dropped", [&ran] { ++ran; });
  a.enqueue("dropped", [&ran] { return ++ran < 0; });
  a.record(event);
  b.wait(event);
  b.enqueue("run", [&b_ran] { b_ran = true; });
  b.synchronize();  // the event completes, and b has no error of its own
  BOOST_TEST(b_ran);
  BOOST_TEST(event.complete());
  BOOST_CHECK_EXCEPTION(a.check(), std::runtime_error,
                        [](const auto& error) { return mentions(error, "the first"); });
  BOOST_CHECK_EXCEPTION(a.synchronize(), std::runtime_error,
                        [](const auto& error) { return mentions(error, "the first"); });
  BOOST_TEST(ran.load() == 1);
  a.check();
  a.enqueue("good", [&ran] { ++ran; });  // the error was told: the stream works again
  a.synchronize();
  BOOST_TEST(ran.load() == 2);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_device_waits_for_all_streams_and_then_tells_the_first_error, Maker,
                              Makers) {
  Fixture<Maker> f;
  auto& a = f.device.make_stream("a");
  auto& b = f.device.make_stream("b");
  auto& c = f.device.make_stream("c");
  bool ran = false;
  a.enqueue("bad", [] { throw std::runtime_error("of a"); });
  b.enqueue("bad", [] { throw std::runtime_error("of b"); });
  c.enqueue("run", [&ran] { ran = true; });
  BOOST_CHECK_EXCEPTION(f.device.synchronize(), std::runtime_error,
                        [](const auto& error) { return mentions(error, "of a"); });
  BOOST_TEST(ran);
  f.device.synchronize();
}

struct NeverReady {
  bool operator()() const { return false; }
  std::string describe() const { return "all_gather of unit block.3"; }
};

BOOST_AUTO_TEST_CASE_TEMPLATE(polling_longer_than_the_time_limit_is_an_error_with_names, Maker,
                              Makers) {
  Fixture<Maker> f(64, short_limit);
  auto& stream = f.device.make_stream("gather");
  const double seconds = seconds_of([&] {
    stream.enqueue("reduce", [] { return false; });
    BOOST_CHECK_EXCEPTION(stream.synchronize(), zero::TimeoutError, [](const auto& error) {
      return mentions(error, "'gather'") && mentions(error, "reduce") && mentions(error, "80 ms");
    });
    stream.enqueue("label", NeverReady());
    BOOST_CHECK_EXCEPTION(stream.synchronize(), zero::TimeoutError, [](const auto& error) {
      return mentions(error, "'gather'") && mentions(error, "all_gather of unit block.3");
    });
  });
  BOOST_TEST(seconds >= 0.16);
  BOOST_TEST(seconds < 5.0);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_late_operation_is_named_by_its_own_stream, Maker, Makers) {
  Fixture<Maker> f(64, short_limit);
  auto& a = f.device.make_stream("a");
  auto& b = f.device.make_stream("b");
  typename Fixture<Maker>::Event event;
  bool ran = false;
  a.enqueue("late", [] { return false; });
  a.record(event);
  b.wait(event);
  b.enqueue("run", [&ran] { ran = true; });
  b.synchronize();
  BOOST_TEST(ran);
  BOOST_CHECK_EXCEPTION(a.synchronize(), zero::TimeoutError,
                        [](const auto& error) { return mentions(error, "late"); });
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_time_limit_counts_from_the_last_sign_of_life, Maker, Makers) {
  Fixture<Maker> f(64, milliseconds(150));
  auto& a = f.device.make_stream("a");
  auto& b = f.device.make_stream("b");
  auto& c = f.device.make_stream("c");
  typename Fixture<Maker>::Event a_done;
  typename Fixture<Maker>::Event b_done;
  bool ran = false;
  for (int i = 0; i < 20; ++i) {
    a.enqueue("slow", [] { std::this_thread::sleep_for(milliseconds(20)); });
  }
  a.record(a_done);
  b.wait(a_done);
  b.record(b_done);
  c.wait(b_done);
  c.enqueue("run", [&ran] { ran = true; });
  c.synchronize();
  BOOST_TEST(ran);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_full_ring_makes_the_caller_wait, Maker, Makers) {
  Fixture<Maker> f(4);
  auto& a = f.device.make_stream("a");
  auto& b = f.device.make_stream("b");
  typename Fixture<Maker>::Event event;
  std::uint64_t sum = 0;
  for (std::uint64_t i = 1; i <= 500; ++i) {
    a.enqueue("add", [&sum, i] { sum = sum * 3 + i; });
    a.record(event);
    b.wait(event);
    b.enqueue("add", [&sum] { ++sum; });
    b.record(event);
    a.wait(event);
  }
  a.synchronize();
  b.synchronize();
  std::uint64_t expected = 0;
  for (std::uint64_t i = 1; i <= 500; ++i) expected = expected * 3 + i + 1;
  BOOST_TEST(sum == expected);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_full_ring_behind_late_work_ends_with_its_error, Maker, Makers) {
  Fixture<Maker> f(4, short_limit);
  auto& stream = f.device.make_stream("a");
  std::atomic<int> ran{0};
  stream.enqueue("late", [] { return false; });
  for (int i = 0; i < 10; ++i) stream.enqueue("dropped", [&ran] { ++ran; });
  BOOST_CHECK_THROW(stream.synchronize(), zero::TimeoutError);
  BOOST_TEST(ran.load() == 0);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_callable_is_destroyed_once_before_it_counts_as_done, Maker,
                              Makers) {
  Tracked::Count count;
  Fixture<Maker> f(8);
  auto& stream = f.device.make_stream("a");
  for (int i = 0; i < 100; ++i) stream.enqueue("run", Tracked(count));
  stream.synchronize();
  BOOST_TEST(count.alive.load() == 0);
  BOOST_TEST(count.runs.load() == 100);
  stream.enqueue("bad", [] { throw 1; });
  for (int i = 0; i < 100; ++i) stream.enqueue("dropped", Tracked(count));
  BOOST_CHECK_THROW(stream.synchronize(), int);
  BOOST_TEST(count.alive.load() == 0);
  BOOST_TEST(count.runs.load() == 100);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_callable_may_be_large_and_impossible_to_copy, Maker, Makers) {
  Fixture<Maker> f;
  auto& stream = f.device.make_stream("a");
  std::array<std::uint64_t, 14> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i * i;
  std::uint64_t sum = 0;
  auto owned = std::make_unique<std::uint64_t>(7);
  stream.enqueue("sum", [numbers, &sum, owned = std::move(owned)] {
    for (const std::uint64_t x : numbers) sum += x;
    sum += *owned;
  });
  stream.synchronize();
  BOOST_TEST(sum == 826U);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(nothing_is_allocated_after_construction, Maker, Makers) {
  Fixture<Maker> f(16);
  auto& a = f.device.make_stream("a");
  auto& b = f.device.make_stream("b");
  std::array<typename Fixture<Maker>::Event, 8> events;
  std::uint64_t sum = 0;
  const auto round = [&] {
    for (auto& event : events) {
      a.enqueue("add", [&sum] { ++sum; });
      a.record(event);
      b.wait(event);
      b.enqueue("poll", [&sum, n = 0]() mutable { return ++n == 3 && ++sum > 0; });
      b.record(event);
      a.wait(event);
    }
    events[3].synchronize();
    a.synchronize();
    b.synchronize();
  };
  round();
  const std::size_t before = allocations;
  for (int i = 0; i < 50; ++i) round();
  const std::size_t after = allocations;
  BOOST_TEST(after == before);
  BOOST_TEST(sum == 51U * 16U);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_task_may_use_other_streams, Maker, Makers) {
  Fixture<Maker> f;
  auto& a = f.device.make_stream("a");
  auto& b = f.device.make_stream("b");
  typename Fixture<Maker>::Event event;
  int x = 0;
  a.enqueue("outer", [&] {
    b.enqueue("inner", [&x] { x = 1; });
    b.record(event);
  });
  a.synchronize();
  a.wait(event);
  a.enqueue("last", [&x] { x = x * 10; });
  a.synchronize();
  BOOST_TEST(x == 10);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_task_must_not_use_its_own_stream, Maker, Makers) {
  Fixture<Maker> f;
  auto& a = f.device.make_stream("a");
  typename Fixture<Maker>::Event event;
  const auto refused = [](const zero::ContractError& error) {
    return mentions(error, "'a'") && mentions(error, "'outer'");
  };
  a.enqueue("outer", [&] { a.enqueue("inner", [] {}); });
  BOOST_CHECK_EXCEPTION(a.synchronize(), zero::ContractError, refused);
  a.enqueue("outer", [&] { a.synchronize(); });
  BOOST_CHECK_EXCEPTION(a.synchronize(), zero::ContractError, refused);
  a.enqueue("outer", [&] { a.record(event); });
  BOOST_CHECK_EXCEPTION(a.synchronize(), zero::ContractError, refused);
  a.enqueue("outer", [&] { a.wait(event); });
  BOOST_CHECK_EXCEPTION(a.synchronize(), zero::ContractError, refused);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(destruction_ends_with_work_queued, Maker, DeferredMakers) {
  Tracked::Count count;
  const double seconds = seconds_of([&] {
    Fixture<Maker> f;
    auto& a = f.device.make_stream("a");
    auto& b = f.device.make_stream("b");
    typename Fixture<Maker>::Event event;
    a.enqueue("never", [] { return false; });
    for (int i = 0; i < 20; ++i) a.enqueue("queued", Tracked(count));
    a.record(event);
    b.wait(event);
    for (int i = 0; i < 20; ++i) b.enqueue("queued", Tracked(count));
  });
  BOOST_TEST(seconds < 5.0);
  BOOST_TEST(count.alive.load() == 0);
  BOOST_TEST(count.runs.load() == 0);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(destruction_ends_after_an_exception_that_nobody_saw, Maker, Makers) {
  Tracked::Count count;
  {
    Fixture<Maker> f;
    auto& a = f.device.make_stream("a");
    a.enqueue("bad", [] { throw std::runtime_error("nobody sees this"); });
    for (int i = 0; i < 20; ++i) a.enqueue("dropped", Tracked(count));
  }
  BOOST_TEST(count.alive.load() == 0);
  BOOST_TEST(count.runs.load() == 0);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_event_that_never_comes_outlives_its_device, Maker,
                              DeferredMakers) {
  typename Fixture<Maker>::Event never;
  Fixture<Maker> other;
  auto& b = other.device.make_stream("b");
  {
    Fixture<Maker> f;
    auto& a = f.device.make_stream("a");
    a.enqueue("never", [] { return false; });
    a.record(never);
    b.wait(never);
  }
  const auto names_the_stream = [](const auto& error) { return mentions(error, "'a'"); };
  BOOST_CHECK_EXCEPTION(never.synchronize(), zero::DeviceError, names_the_stream);
  BOOST_CHECK_EXCEPTION(b.synchronize(), zero::DeviceError, names_the_stream);
  b.synchronize();
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_device_may_end_while_another_thread_waits_for_it, Maker,
                              DeferredMakers) {
  typename Fixture<Maker>::Event event;
  std::string error;
  std::atomic<bool> waiting{false};
  std::thread waiter;
  {
    Fixture<Maker> f;
    auto& a = f.device.make_stream("a");
    a.enqueue("never", [] { return false; });
    a.record(event);
    waiter = std::thread([&] {
      Fixture<Maker> mine;
      auto& b = mine.device.make_stream("b");
      b.wait(event);
      waiting = true;
      try {
        b.synchronize();
      } catch (const zero::DeviceError& caught) { error = caught.what(); }
    });
    while (!waiting) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(20));
  }
  waiter.join();
  BOOST_TEST(error.find("'a'") != std::string::npos);
}
