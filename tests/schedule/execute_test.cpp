// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The executor issues exactly the schedule, whoever owns the loop.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>
#include <zero/schedule/execute.hpp>

#include "../counting_new.hpp"
#include "stages.hpp"

BOOST_AUTO_TEST_SUITE(execute_test)

using namespace tested;

struct Log {
  std::vector<std::string> lines;
  void wait(StreamId stream, std::uint32_t index) {
    lines.push_back(std::string("wait ") + name_of(stream) + " " + std::to_string(index));
  }
  void run(const Step& step) { note("run ", step); }
  void pass(const Step& step) { note("pass ", step); }
  void record(StreamId stream, std::uint32_t index) {
    lines.push_back(std::string("record ") + name_of(stream) + " " + std::to_string(index));
  }
  void note(const char* what, const Step& step) {
    lines.push_back(std::string(what) + info(step.op).name + " " + std::to_string(step.subject));
  }
  std::size_t count(const std::string& line) const {
    std::size_t n = 0;
    for (const std::string& l : lines) n += l == line;
    return n;
  }
};
static_assert(Backend<Log>);

/// Counts, so that the compiler keeps the calls.
struct Counter {
  std::size_t waits = 0, runs = 0, passes = 0, records = 0;
  void wait(StreamId, std::uint32_t) { ++waits; }
  void run(const Step&) { ++runs; }
  void pass(const Step&) { ++passes; }
  void record(StreamId, std::uint32_t) { ++records; }
};

void compute(Executor<Log>& executor, Log& log, Op op, std::size_t unit) {
  log.run(executor.enter(op, unit));
  executor.leave();
}
std::string message_of(Executor<Log>& executor, Op op, std::size_t unit) {
  try {
    executor.enter(op, unit);
  } catch (const ContractError& error) { return error.what(); }
  return "";
}
bool says(const std::string& text, const char* part) { return text.find(part) != text.npos; }
const Schedule zero3 = make_schedule<Zero3>(ModelShape(3), training(3, 2));

BOOST_AUTO_TEST_CASE(steps_are_on_streams_that_the_stage_uses) {
  bool seen[stream_count] = {};
  for_each_stage([&]<class S>(const char* name) {
    const Schedule s = make_schedule<S>(ModelShape(3), training(3, 2));
    for (const Step& step : s.steps) {
      BOOST_TEST(s.traits.uses(step.stream), name << ": " << name_of(step.stream));
      seen[static_cast<std::size_t>(step.stream)] = true;
    }
  });
  for (const bool by_some_stage : seen) BOOST_TEST(by_some_stage);
}

BOOST_AUTO_TEST_CASE(the_caller_s_loop_issues_what_the_executor_s_own_loop_issues) {
  for_each_stage([]<class S>(const char* name) {
    for (const Program& program : {training(3, 2), evaluation(3), forwards_first(3, 2)}) {
      const Schedule s = make_schedule<S>(ModelShape(3), program);
      Log owned, called;
      Executor a(s, owned), b(s, called);
      for (int execution = 0; execution < 2; ++execution) {
        a.run();
        for (const Compute& c : program.computes) compute(b, called, c.op, c.unit);
        b.finish();
        BOOST_TEST(b.position() == 0u);
      }
      BOOST_TEST(owned.lines == called.lines, name);
    }
  });
}

BOOST_AUTO_TEST_CASE(each_step_waits_then_runs_then_records) {
  Log log;
  Executor executor(zero3, log);
  executor.run();
  log.lines.clear();
  executor.run();
  std::vector<std::string> expected;
  for (std::uint32_t i = 0; i < zero3.steps.size(); ++i) {
    const Step& step = zero3.steps[i];
    Log line;
    for (const std::uint32_t w : step.waits) {
      if (w != no_wait) line.wait(step.stream, w);
    }
    line.run(step);
    if (step.signals) line.record(step.stream, i);
    expected.insert(expected.end(), line.lines.begin(), line.lines.end());
  }
  BOOST_TEST(log.lines == expected);
}

BOOST_AUTO_TEST_CASE(the_first_execution_and_the_first_after_a_restart_wait_for_no_previous_one) {
  Counter first, all;
  for (std::size_t i = 0; i < zero3.steps.size(); ++i) {
    for (const std::uint32_t w : zero3.steps[i].waits) {
      all.waits += w != no_wait;
      first.waits += w != no_wait && w < i;
    }
  }
  BOOST_TEST(first.waits < all.waits);
  Counter counter;
  Executor executor(zero3, counter);
  const auto waits_of_a_run = [&] {
    counter.waits = 0;
    executor.run();
    return counter.waits;
  };
  BOOST_TEST(waits_of_a_run() == first.waits);
  BOOST_TEST(waits_of_a_run() == all.waits);
  executor.restart();
  BOOST_TEST(waits_of_a_run() == first.waits);
}

BOOST_AUTO_TEST_CASE(a_compute_that_the_loop_leaves_out_is_passed_over_in_its_place) {
  Log whole, gaps;
  Executor a(zero3, whole), b(zero3, gaps);
  a.run();
  compute(b, gaps, Op::forward, 0);
  compute(b, gaps, Op::forward, 2);   // leaves out forward 1
  compute(b, gaps, Op::backward, 2);  // leaves out backward 1 and 0
  compute(b, gaps, Op::forward, 0);   // of the next micro-step
  compute(b, gaps, Op::forward, 1);
  compute(b, gaps, Op::forward, 2);
  compute(b, gaps, Op::backward, 2);
  b.finish();  // leaves out backward 1 and 0
  BOOST_TEST(gaps.count("pass forward 1") == 1u);
  BOOST_TEST(gaps.count("pass backward 1") == 2u);
  BOOST_TEST(gaps.count("pass backward 0") == 2u);
  BOOST_TEST(gaps.count("pass backward 2") == 0u);
  for (std::string& line : gaps.lines) {
    if (line.starts_with("pass ")) line.replace(0, 4, "run");
  }
  BOOST_TEST(whole.lines == gaps.lines);
}

BOOST_AUTO_TEST_CASE(leaving_the_last_compute_does_not_change_parameters_and_finish_does) {
  Log log;
  Executor executor(zero3, log);
  for (const Compute& c : zero3.program.computes) compute(executor, log, c.op, c.unit);
  BOOST_TEST(log.count("run reduce_scatter 0") == 2u);
  BOOST_TEST(log.count("run combine 0") == 0u);
  BOOST_TEST((zero3.steps[executor.position()].op == Op::combine));
  executor.finish();
  BOOST_TEST(log.count("run combine 0") == 1u);
  BOOST_TEST(log.count("run update 2") == 1u);
}

BOOST_AUTO_TEST_CASE(a_compute_out_of_order_is_refused_with_position_and_nothing_is_issued) {
  const Schedule three = make_schedule<Zero3>(ModelShape(3), training(3, 3));
  Log log;
  Executor executor(three, log);
  compute(executor, log, Op::forward, 0);
  const std::size_t issued = log.lines.size(), position = executor.position();
  const std::string missing = message_of(executor, Op::forward, 7);
  BOOST_TEST(says(missing, "forward of unit 7 was called"));
  BOOST_TEST(says(missing, ("position " + std::to_string(position)).c_str()));
  BOOST_TEST(says(missing, "forward of unit 1 in micro-step 0 comes next"));
  BOOST_TEST(log.lines.size() == issued);
  BOOST_TEST(executor.position() == position);
  compute(executor, log, Op::forward, 1);  // and it goes on
}

BOOST_AUTO_TEST_CASE(a_compute_may_be_found_in_the_next_micro_step_but_not_in_the_one_after) {
  Program gaps = training(3, 3);  // unit 2 computes in the last micro-step only
  gaps.computes.erase_if([](const Compute& c) { return c.unit == 2 && c.micro_step < 2; });
  const Schedule s = make_schedule<Zero3>(ModelShape(3), gaps);
  Log log;
  Executor executor(s, log);
  BOOST_TEST(says(message_of(executor, Op::forward, 2), "forward of unit 2 was called"));
  compute(executor, log, Op::forward, 0);
  BOOST_TEST(message_of(executor, Op::backward, 2) != "");
  compute(executor, log, Op::backward, 0);
  compute(executor, log, Op::forward, 0);  // now in micro-step 1
  compute(executor, log, Op::forward, 2);
  executor.finish();
}

BOOST_AUTO_TEST_CASE(a_compute_must_be_left_before_the_next_one_and_before_the_end) {
  Log log;
  Executor executor(zero3, log);
  executor.enter(Op::forward, 0);
  BOOST_TEST(says(message_of(executor, Op::forward, 1), "the end of forward of unit 0"));
  BOOST_CHECK_THROW(executor.finish(), ContractError);
  executor.leave();
  compute(executor, log, Op::forward, 1);
}

BOOST_AUTO_TEST_CASE(after_the_last_compute_only_the_end_is_expected) {
  const Schedule s = make_schedule<Zero3>(ModelShape(2), evaluation(2));
  Log log;
  Executor executor(s, log);
  compute(executor, log, Op::forward, 0);
  compute(executor, log, Op::forward, 1);
  BOOST_TEST(says(message_of(executor, Op::forward, 0), "the end of the step comes next"));
  executor.finish();
  compute(executor, log, Op::forward, 0);
}

BOOST_AUTO_TEST_CASE(after_a_restart_the_executor_begins_again) {
  Log abandoned, fresh;
  Executor a(zero3, abandoned), b(zero3, fresh);
  a.enter(Op::forward, 0);
  a.restart();
  abandoned.lines.clear();
  a.run();
  b.run();
  BOOST_TEST(abandoned.lines == fresh.lines);
}

BOOST_AUTO_TEST_CASE(issuing_allocates_nothing) {
  Counter counter;
  Executor executor(zero3, counter);
  const std::size_t before = allocations;
  for (int execution = 0; execution < 3; ++execution) {
    for (const Compute& c : zero3.program.computes) {
      if (c.unit == 1) continue;
      executor.enter(c.op, c.unit);
      executor.leave();
    }
    executor.finish();
  }
  BOOST_TEST(allocations == before);
  BOOST_TEST(counter.passes == 3u * 4u);
}

BOOST_AUTO_TEST_SUITE_END()
