// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The cases of conformance.hpp. Included within the test suite of a model, after what they ask for.

using namespace conformance;

BOOST_AUTO_TEST_CASE_TEMPLATE(work_of_a_stream_runs_in_order, Maker, Makers) {
  Fixture<Maker> f;
  auto& stream = f.device.make_stream("a");
  std::vector<int> seen;
  for (int i = 0; i < 50; ++i) Maker::enqueue(stream, [&seen, i] { seen.push_back(i); });
  stream.synchronize();
  BOOST_REQUIRE_EQUAL(seen.size(), 50U);
  for (int i = 0; i < 50; ++i) BOOST_TEST(seen[static_cast<std::size_t>(i)] == i);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_wait_orders_work_of_different_streams, Maker, Makers) {
  Fixture<Maker> f;
  auto& a = f.device.make_stream("a");
  auto& b = f.device.make_stream("b");
  auto& c = f.device.make_stream("c");
  typename Fixture<Maker>::Event a_done;
  typename Fixture<Maker>::Event b_done;
  typename Fixture<Maker>::Event c_done;
  std::uint64_t x = 1;
  std::uint64_t expected = 1;
  for (int i = 0; i < 300; ++i) {
    a.wait(c_done);
    Maker::enqueue(a, [&x] { x += 3; });
    a.record(a_done);
    b.wait(a_done);
    Maker::enqueue(b, [&x] { x *= 5; });
    b.record(b_done);
    c.wait(b_done);
    Maker::enqueue(c, [&x] { x ^= 0x55; });
    c.record(c_done);
    expected = ((expected + 3) * 5) ^ 0x55;
  }
  c.synchronize();
  BOOST_TEST(x == expected);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_wait_sees_the_latest_record_before_it, Maker, Makers) {
  Fixture<Maker> f;
  auto& a = f.device.make_stream("a");
  auto& b = f.device.make_stream("b");
  typename Fixture<Maker>::Event event;
  int x = 0;
  int read = 0;
  Maker::enqueue(a, [&x] { x = 1; });
  a.record(event);
  Maker::enqueue(a, [&x] { x = 2; });
  a.record(event);
  b.wait(event);
  Maker::enqueue(b, [&] { read = x; });
  b.synchronize();
  BOOST_TEST(read == 2);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_wait_does_not_see_a_record_after_it, Maker, Makers) {
  Fixture<Maker> f;
  auto& a = f.device.make_stream("a");
  auto& b = f.device.make_stream("b");
  typename Fixture<Maker>::Event event;
  std::atomic<bool> open{!Maker::deferred};
  int x = 0;
  Maker::enqueue(a, [&x] { x = 1; });
  a.record(event);
  b.wait(event);
  Maker::gate(a, open);
  a.record(event);
  b.synchronize();
  BOOST_TEST(x == 1);
  open = true;
  a.synchronize();
}

BOOST_AUTO_TEST_CASE_TEMPLATE(the_latest_record_counts_also_on_another_stream, Maker,
                              DeferredMakers) {
  Fixture<Maker> f;
  auto& slow = f.device.make_stream("slow");
  auto& fast = f.device.make_stream("fast");
  auto& reader = f.device.make_stream("reader");
  auto& patient = f.device.make_stream("patient");
  typename Fixture<Maker>::Event event;
  std::atomic<bool> open{false};
  std::atomic<int> order{0};
  int slow_at = 0;
  int patient_at = 0;
  Maker::gate(slow, open);
  Maker::enqueue(slow, [&] { slow_at = ++order; });
  slow.record(event);
  patient.wait(event);  // for the slow stream, whatever the event is used for later
  Maker::enqueue(patient, [&] { patient_at = ++order; });
  fast.record(event);
  reader.wait(event);
  reader.synchronize();
  BOOST_TEST(event.complete());
  open = true;
  patient.synchronize();
  BOOST_TEST(slow_at == 1);
  BOOST_TEST(patient_at == 2);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_event_that_was_never_recorded_is_complete, Maker, Makers) {
  Fixture<Maker> f;
  auto& stream = f.device.make_stream("a");
  typename Fixture<Maker>::Event event;
  BOOST_TEST(event.complete());
  event.synchronize();
  stream.wait(event);
  bool ran = false;
  Maker::enqueue(stream, [&ran] { ran = true; });
  stream.synchronize();
  BOOST_TEST(ran);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_event_is_complete_when_the_work_before_it_has_ended, Maker,
                              Makers) {
  Fixture<Maker> f;
  auto& stream = f.device.make_stream("a");
  typename Fixture<Maker>::Event event;
  std::atomic<bool> open{!Maker::deferred};
  bool ran = false;
  stream.record(event);
  event.synchronize();
  BOOST_TEST(event.complete());
  Maker::gate(stream, open);
  Maker::enqueue(stream, [&ran] { ran = true; });
  stream.record(event);
  BOOST_TEST(event.complete() == !Maker::deferred);
  open = true;
  event.synchronize();
  BOOST_TEST(event.complete());
  BOOST_TEST(ran);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_event_may_be_destroyed_while_work_waits_for_it, Maker, Makers) {
  Fixture<Maker> f;
  auto& a = f.device.make_stream("a");
  auto& b = f.device.make_stream("b");
  int x = 0;
  int read = 0;
  for (int i = 0; i < 20; ++i) {
    auto event = std::make_unique<typename Fixture<Maker>::Event>();
    Maker::enqueue(a, [&x] { ++x; });
    a.record(*event);
    b.wait(*event);
    event.reset();
  }
  Maker::enqueue(b, [&] { read = x; });
  b.synchronize();
  BOOST_TEST(read == 20);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_event_outlives_its_device, Maker, Makers) {
  typename Fixture<Maker>::Event done;
  Fixture<Maker> other;
  auto& b = other.device.make_stream("b");
  int x = 0;
  {
    Fixture<Maker> f;
    auto& a = f.device.make_stream("a");
    Maker::enqueue(a, [&x] { x = 1; });
    a.record(done);
    a.synchronize();
  }
  done.synchronize();
  BOOST_TEST(done.complete());
  b.wait(done);
  b.synchronize();
  BOOST_TEST(x == 1);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_device_waits_for_all_its_streams, Maker, Makers) {
  Fixture<Maker> f;
  std::atomic<int> ran{0};
  for (const char* name : {"a", "b", "c"}) {
    auto& stream = f.device.make_stream(name);
    Maker::enqueue(stream, [&ran] {
      std::this_thread::sleep_for(milliseconds(2));
      ++ran;
    });
  }
  f.device.synchronize();
  BOOST_TEST(ran.load() == 3);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_stream_waits_for_an_event_of_another_device, Maker, Makers) {
  constexpr int rounds = 50;
  std::array<typename Fixture<Maker>::Event, 2 * rounds> events;
  std::atomic<int> recorded{0};
  std::uint64_t x = 0;
  // Two ranks take turns, each on a thread and a device of its own.
  const auto rank = [&](int me) {
    Fixture<Maker> f;
    auto& stream = f.device.make_stream(me == 0 ? "a" : "b");
    for (int i = me; i < 2 * rounds; i += 2) {
      while (recorded.load() != i) std::this_thread::yield();
      if (i > 0) stream.wait(events[static_cast<std::size_t>(i - 1)]);
      Maker::enqueue(stream, [&x, i] { x = x * 3 + static_cast<std::uint64_t>(i); });
      stream.record(events[static_cast<std::size_t>(i)]);
      recorded = i + 1;
    }
    stream.synchronize();
  };
  std::thread first(rank, 0);
  std::thread second(rank, 1);
  first.join();
  second.join();
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < 2 * rounds; ++i) expected = expected * 3 + i;
  BOOST_TEST(x == expected);
}
