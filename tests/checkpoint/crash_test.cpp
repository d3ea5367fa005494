// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "../share.hpp"
#include "held.hpp"
#include "memory_files.hpp"

BOOST_AUTO_TEST_SUITE(crash_test)

using files::FaultyFiles;
using files::MemoryFiles;

const std::vector<held::Named> tensors{{"a", {3}}, {"b", {2, 5}}};

/// Random losses of what was not made durable that are tried at each point of a save.
constexpr unsigned losses = share > 1 ? 1 : 4;
/// Of the calls that may fail, each one or each 23rd.
constexpr unsigned stride = share > 1 ? 23 : 1;

/// What a save does to a disk: `before` versions are there, then `version` is saved.
struct Scenario {
  const char* title;
  std::vector<std::int64_t> before;
  std::int64_t version;
  zero::SaveOptions options;

  void prepare(MemoryFiles& disk) const {
    disk.make_directory("runs");
    for (const std::int64_t old : before) save(disk, old);
  }
  void save(zero::Files& files, std::int64_t saved, std::size_t ranks = 2) const {
    zero::SaveOptions all = options;
    all.files = &files;
    held::save(ranks, 1, saved, "runs", all, tensors);
  }
  std::int64_t old() const { return before.empty() ? 0 : before.back(); }
};
const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all{{"the first", {}, 1, {}},
                                         {"the second", {1}, 2, {}},
                                         {"one that replaces the older", {1, 2}, 3, {.keep = 1}},
                                         {"one of the same name", {1}, 2, {.name = "same"}},
                                         {"the same step again", {4}, 4, {}}};
  return all;
}
/// The version that a disk gives: 0 if it has none, -1 if it is broken or mixed.
std::int64_t found(zero::Files& disk, std::string* error = nullptr) {
  std::int64_t version = 0;
  const std::string text =
      held::error_of([&] { version = held::load("runs", {.files = &disk}, tensors); });
  if (error != nullptr) *error = text;
  if (text.empty()) return version;
  return held::says(text, {"holds no checkpoint"}) ? 0 : -1;
}
std::size_t calls_of(zero::Files& disk, const std::function<void(zero::Files&)>& f) {
  FaultyFiles files(disk, [](std::size_t, const std::string&, std::int64_t&) { return false; });
  f(files);
  return files.calls();
}

// B102
BOOST_AUTO_TEST_CASE(whatever_a_crash_leaves_is_the_old_or_the_new_and_can_go_on) {
  for (const Scenario& scenario : scenarios()) {
    MemoryFiles disk;
    scenario.prepare(disk);
    disk.begin_notes();
    scenario.save(disk, scenario.version);
    std::size_t old_ones = 0, new_ones = 0, wrong = 0, stuck = 0;
    const std::size_t states = disk.for_each_crash(losses, [&](MemoryFiles& left) {
      std::string error;
      const std::int64_t version = found(left, &error);
      (version == scenario.version ? new_ones : version == scenario.old() ? old_ones : wrong) += 1;
      if (wrong == 1 && version != scenario.version && version != scenario.old()) {
        BOOST_TEST_MESSAGE(scenario.title << " gives " << version << ": " << error);
      }
      try {
        scenario.save(left, 9, 1);
        if (found(left) != 9) ++stuck;
        for (const std::string& name : left.names_in("runs")) stuck += name[0] == '.' ? 1 : 0;
      } catch (const zero::Error& failure) {
        if (++stuck == 1) BOOST_TEST_MESSAGE(scenario.title << " is stuck: " << failure.what());
      }
    });
    BOOST_TEST(wrong == 0, scenario.title << ": " << wrong << " of " << states);
    BOOST_TEST(stuck == 0, scenario.title << ": " << stuck << " of " << states);
    BOOST_TEST(new_ones > 0, scenario.title);
    if (scenario.old() != scenario.version) BOOST_TEST(old_ones > 0, scenario.title);
    BOOST_TEST(states > 100, scenario.title);
  }
}

BOOST_AUTO_TEST_CASE(an_exchange_that_was_not_made_durable_is_not_cleaned_away) {
  MemoryFiles disk;
  const auto save = [&](zero::Files& files, std::int64_t version) {
    held::save(2, 1, version, "runs", {.name = "same", .files = &files}, tensors);
  };
  save(disk, 1);
  disk.begin_notes();
  bool exchanged = false;
  FaultyFiles files(disk, [&](std::size_t, const std::string& name, std::int64_t& result) {
    exchanged = exchanged || name == "exchange";
    result = -EIO;
    return exchanged && name == "sync_directory";
  });
  BOOST_TEST(held::says(held::error_of([&] { save(files, 2); }), {"sync directory"}));
  save(disk, 3);
  std::size_t wrong = 0;
  const std::size_t states = disk.for_each_crash(losses, [&](MemoryFiles& left) {
    const std::int64_t version = found(left);
    wrong += version >= 1 && version <= 3 ? 0 : 1;
  });
  BOOST_TEST(wrong == 0, wrong << " of " << states);
}

/// Fails call `n` in some way and all later ones too if `forever`.
struct Failure {
  const char* title;
  std::int64_t result;
  bool forever, harmless;
};
const std::vector<Failure>& failures() {
  static const std::vector<Failure> all{{"no space", -ENOSPC, false, false},
                                        {"a disk error", -EIO, false, false},
                                        {"a disk that is gone", -EIO, true, false},
                                        {"an interruption", -EINTR, false, true},
                                        {"a short write", 1, false, true}};
  return all;
}

// B110
BOOST_AUTO_TEST_CASE(a_failure_of_any_call_leaves_the_old_or_the_new) {
  for (const Scenario& scenario : scenarios()) {
    for (const Failure& failure : failures()) {
      std::size_t failed = 0, complete = 0;
      MemoryFiles trial;
      scenario.prepare(trial);
      const std::size_t calls =
          calls_of(trial, [&](zero::Files& files) { scenario.save(files, scenario.version); });
      for (std::size_t n = 0; n < calls; n += stride) {
        MemoryFiles disk;
        scenario.prepare(disk);
        FaultyFiles files(disk, [&](std::size_t call, const std::string&, std::int64_t& result) {
          result = failure.result;
          return failure.forever ? call >= n : call == n;
        });
        std::vector<std::string> errors(2);
        held::on_ranks(2, 1, tensors, [&](held::Holder& holder, zero::ThreadCommunicator& comm) {
          zero::SaveOptions options = scenario.options;
          options.files = &files;
          holder.fill(scenario.version);
          errors[comm.rank()] =
              held::error_of([&] { zero::save(holder.state, comm, "runs", options); });
        });
        const std::string what = std::string(scenario.title) + ", " + failure.title + " in call " +
                                 std::to_string(n) + ": " + errors[0];
        BOOST_TEST(errors[0].empty() == errors[1].empty(), what);
        if (!errors[0].empty()) {
          ++failed;
          BOOST_TEST(held::says(errors[0], {"CheckpointError", " of 'runs"}), what);
          BOOST_TEST(held::says(errors[1], {"CheckpointError", " of 'runs"}), what);
        }
        const std::int64_t version = found(disk);
        const bool is_new = version == scenario.version, is_old = version == scenario.old();
        BOOST_TEST((is_new || is_old), what);
        if (errors[0].empty()) BOOST_TEST(is_new, what);
        if (held::says(errors[0], {"is complete"})) {
          ++complete;
          const std::string name = scenario.options.name.empty()
                                       ? "step-" + std::to_string(scenario.version)
                                       : scenario.options.name;
          BOOST_TEST(held::load("runs/" + name, {.files = &disk}, tensors) == scenario.version);
        }
        if (failure.harmless) BOOST_TEST(errors[0].empty(), what);
        scenario.save(disk, 9);
        BOOST_TEST(found(disk) == 9, what);
        for (const std::string& name : disk.names_in("runs")) BOOST_TEST(name[0] != '.', what);
        BOOST_TEST(disk.open_files() == 0, what);
      }
      BOOST_TEST(calls > 15, scenario.title);
      if (!failure.harmless) {
        BOOST_TEST(failed == (calls + stride - 1) / stride, scenario.title << ' ' << failure.title);
        if (stride == 1) BOOST_TEST(complete > 0, scenario.title << ' ' << failure.title);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_failure_of_any_call_of_a_load_is_an_error_on_all_ranks) {
  MemoryFiles disk;
  held::save(3, 1, 1, "runs", {.files = &disk}, tensors);
  for (const Failure& failure : failures()) {
    const std::size_t calls = calls_of(disk, [&](zero::Files& files) {
      held::on_ranks(2, 1, tensors, [&](held::Holder& holder, zero::ThreadCommunicator& comm) {
        zero::load(holder.state, comm, "runs", {.files = &files});
      });
    });
    for (std::size_t n = 0; n < calls; n += stride) {
      FaultyFiles files(disk, [&](std::size_t call, const std::string& name, std::int64_t& result) {
        result = failure.result;
        // Closing a file that was read changes nothing.
        return (failure.forever ? call >= n : call == n) && name != "close";
      });
      std::vector<std::string> errors(2);
      std::vector<char> same(2), untouched(2);
      held::on_ranks(2, 1, tensors, [&](held::Holder& holder, zero::ThreadCommunicator& comm) {
        holder.fill(5);
        errors[comm.rank()] =
            held::error_of([&] { zero::load(holder.state, comm, "runs", {.files = &files}); });
        same[comm.rank()] = holder.is(1);
        untouched[comm.rank()] = holder.is(5);
      });
      for (const std::size_t rank : {0, 1}) {
        const std::string what = failure.title + (" in call " + std::to_string(n)) + errors[rank];
        BOOST_TEST(errors[0].empty() == errors[rank].empty(), what);
        if (errors[rank].empty()) {
          BOOST_TEST(same[rank], what);
        } else {
          BOOST_TEST(!failure.harmless, what);
          BOOST_TEST((untouched[rank] || held::says(errors[rank], {"may have changed"})), what);
        }
      }
    }
    BOOST_TEST(calls > 10);
  }
}

BOOST_AUTO_TEST_SUITE_END()
