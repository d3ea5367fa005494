// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A second opinion on races: streams are real threads, buffers plain memory, waits the only
// synchronisation. Under the thread sanitizer it judges what the rules judged: intact schedules are
// clean, and each dropped wait is reported.
// usage: schedule_tests --run_test=threads_test/streams* -- STAGE [K]    one stage, without wait K
#include <sys/wait.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <zero/schedule/cost.hpp>

#include "stages.hpp"

BOOST_AUTO_TEST_SUITE(threads_test)

using namespace tested;

#if defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

void drop_wait(Schedule& s, std::size_t number) {
  for (Step& step : s.steps) {
    for (std::uint32_t& wait : step.waits) {
      if (wait != no_wait && number-- == 0) wait = no_wait;
    }
  }
}

/// Runs three executions, each stream on a thread of its own, and returns how many steps ran.
std::size_t run(const Schedule& s) {
  std::vector<std::vector<int>> memory[space_count];
  for (std::size_t i = 0; i < space_count; ++i) {
    memory[i].assign(s.extent[i], std::vector<int>(4, 1));
  }
  const std::size_t n = s.steps.size();
  const auto done = std::make_unique<std::atomic<unsigned>[]>(n);
  std::atomic<std::size_t> ran{0};
  const auto work = [&](const Step& step) {
    const auto at = [&](const Access& a) -> std::vector<int>& {
      return memory[static_cast<std::size_t>(a.space)][a.index];
    };
    int sum = 0;
    for (const Access& a : step) {
      if (a.mode == Mode::write) continue;
      for (const int x : at(a)) sum += x;
    }
    for (const Access& a : step) {
      if (a.mode == Mode::read) continue;
      for (int& x : at(a)) x = sum & 0xff;
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < stream_count; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned execution = 0; execution < 3; ++execution) {
        for (std::size_t i = 0; i < n; ++i) {
          const Step& step = s.steps[i];
          if (static_cast<std::size_t>(step.stream) != t) continue;
          for (const std::uint32_t w : step.waits) {
            if (w == no_wait) continue;
            const unsigned enough = w < i ? execution + 1 : execution;
            while (done[w].load(std::memory_order_acquire) < enough) std::this_thread::yield();
          }
          work(step);
          ran.fetch_add(1, std::memory_order_relaxed);
          if (step.signals) done[i].store(execution + 1, std::memory_order_release);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ran;
}

/// The stage and the wait that the command line asks for.
std::string argument(int i) {
  const auto& suite = boost::unit_test::framework::master_test_suite();
  return i < suite.argc ? suite.argv[i] : "";
}

BOOST_AUTO_TEST_CASE(streams_as_threads_run_every_stage_without_a_race) {
  const std::string wanted = argument(1), dropped = argument(2);
  for_each_stage([&]<class S>(const char* name) {
    if (!wanted.empty() && wanted != name) return;
    for (const Program& program : {training(4, 2), evaluation(4)}) {
      Schedule s = make_schedule<S>(transformer(2, true), program);
      if (!dropped.empty()) drop_wait(s, std::stoul(dropped));
      BOOST_TEST(run(s) == 3 * s.steps.size(), name);
      if (!dropped.empty()) return;
    }
  });
}

#ifdef SANITIZED
BOOST_AUTO_TEST_CASE(the_sanitizer_reports_each_dropped_wait) {
  for_each_stage([&]<class S>(const char* name) {
    const std::string stage = name;
    if (stage != "Ddp" && stage != "Zero3" && stage != "Hybrid" && stage != "Hpz") return;
    const Schedule s = make_schedule<S>(transformer(2, true), training(4, 2));
    const std::size_t waits = count_waits(s);
    for (std::size_t k = 0; k < waits; ++k) {
      const std::string command = "TSAN_OPTIONS='exitcode=66 halt_on_error=1' '" + argument(0) +
                                  "' --run_test='threads_test/streams*' --catch_system_errors=no "
                                  "-- '" +
                                  stage + "' " + std::to_string(k) + " >/dev/null 2>&1";
      bool reported = false;
      for (int attempt = 0; attempt < 5 && !reported; ++attempt) {
        reported = WEXITSTATUS(std::system(command.c_str())) == 66;
      }
      BOOST_TEST(reported, stage << ": wait " << k);
    }
  });
}
#endif

BOOST_AUTO_TEST_SUITE_END()
