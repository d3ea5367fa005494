// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// On the real file system: kinds of files, and saves that are killed. The number of kills can be
// given: checkpoint_tests --run_test=disk_test -- 2000
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "held.hpp"
#include "memory_files.hpp"

BOOST_AUTO_TEST_SUITE(disk_test)

namespace fs = std::filesystem;

/// A new directory that goes with the object.
struct Scratch {
  fs::path path =
      fs::temp_directory_path() / ("zero-checkpoint-test-" + std::to_string(::getpid()));
  Scratch() {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Scratch() { fs::remove_all(path); }
  std::string in(const std::string& name) const { return (path / name).string(); }
};

BOOST_AUTO_TEST_CASE(a_checkpoint_on_a_disk_is_what_it_is_in_memory) {
  const Scratch scratch;
  const std::string runs = scratch.in("new/runs");
  for (const std::int64_t version : {1, 2, 2}) {
    BOOST_TEST(held::save(3, 1, version, runs, {.keep = 1}) ==
               runs + "/step-" + std::to_string(version));
    BOOST_TEST(held::load(runs, {}) == version);
  }
  files::MemoryFiles disk;
  held::save(3, 1, 2, "runs", {.keep = 1, .files = &disk});
  std::size_t seen = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(runs)) {
    if (entry.is_directory()) continue;
    ++seen;
    const std::string text =
        zero::detail::read_text(zero::disk_files(), entry.path().string(), 1 << 20);
    const std::string same = "runs/" + fs::relative(entry.path(), runs).string();
    BOOST_TEST(text == disk.contents(same), same);
  }
  BOOST_TEST(seen == 5);  // three ranks, the manifest, latest
}

// B108
BOOST_AUTO_TEST_CASE(a_checkpoint_of_version_1_loads) {
  const fs::path stored = fs::path(__FILE__).parent_path() / "data" / "version-1";
  BOOST_TEST(held::load(stored.string(), {}) == 6);
}

BOOST_AUTO_TEST_CASE(only_a_regular_file_is_read) {
  const Scratch scratch;
  const std::string runs = scratch.in("runs");
  for (const char* name : {"step-1/rank-0.safetensors", "step-1/manifest.json", "latest"}) {
    const std::string path = runs + '/' + name, aside = scratch.in("aside");
    const auto refused = [&](const char* kind) {
      const std::string error = held::error_of([&] { held::load(runs, {}); });
      BOOST_TEST(held::says(error, {"CheckpointError", path.c_str()}), kind << ": " << error);
      fs::remove_all(path);
    };
    const auto replace = [&](auto make) {
      fs::remove_all(runs);
      held::save(1, 1, 1, runs, {});
      fs::rename(path, aside);
      make();
    };
    replace([&] { fs::create_symlink(aside, path); });
    refused("a link");
    replace([&] { fs::create_directory(path); });
    refused("a directory");
    replace([&] { BOOST_REQUIRE(::mkfifo(path.c_str(), 0600) == 0); });
    refused("a pipe");
  }
}

/// The child: saves one version after the other, every second one beside, and says which are done,
/// until it is killed.
[[noreturn]] void save_for_ever(const std::string& runs, std::int64_t version, std::size_t kill_at,
                                int report) {
  try {
    files::FaultyFiles files(zero::disk_files(),
                             [&](std::size_t call, const std::string&, std::int64_t&) {
                               if (call == kill_at) std::raise(SIGKILL);
                               return false;
                             });
    held::on_ranks(2, 1, held::odd_tensors(),
                   [&](held::Holder& holder, zero::ThreadCommunicator& comm) {
                     zero::AsyncSaver saver(comm);
                     for (std::int64_t saved = version;; ++saved) {
                       zero::SaveOptions options{.keep = 2, .files = &files};
                       if (saved % 3 == 0) options.name = "same";
                       holder.fill(saved);
                       if (saved % 2 == 0) {
                         zero::save(holder.state, comm, runs, options);
                       } else {
                         saver.save(holder.state, runs, options);
                         holder.fill(saved + 1);
                         saver.wait();
                       }
                       if (comm.rank() != 0) continue;
                       if (::write(report, &saved, sizeof saved) != sizeof saved) ::_exit(1);
                     }
                   });
    ::_exit(3);
  } catch (...) { ::_exit(2); }
}

// B102
BOOST_AUTO_TEST_CASE(a_save_that_is_killed_loses_nothing) {
  const auto& suite = boost::unit_test::framework::master_test_suite();
  const int kills = suite.argc > 1 ? std::atoi(suite.argv[1]) : 150;
  const Scratch scratch;
  const std::string runs = scratch.in("runs");
  std::mt19937 random(11);
  std::int64_t last = 1;
  std::size_t unreported = 0, wrong = 0;
  held::save(2, 1, last, runs, {});
  for (int k = 0; k < kills; ++k) {
    int pipe[2];
    BOOST_REQUIRE(::pipe(pipe) == 0);
    const bool by_call = k % 2 == 0;
    const std::size_t kill_at = by_call ? random() % 80 : SIZE_MAX;
    const auto delay = std::chrono::microseconds(random() % 6000);
    const pid_t child = ::fork();
    BOOST_REQUIRE(child >= 0);
    if (child == 0) {
      ::close(pipe[0]);
      save_for_ever(runs, last + 1, kill_at, pipe[1]);
    }
    ::close(pipe[1]);
    if (!by_call) {
      std::this_thread::sleep_for(delay);
      ::kill(child, SIGKILL);
    }
    int status = 0;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_TEST((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL), "status " << status);
    std::int64_t reported = last, next = 0;
    while (::read(pipe[0], &next, sizeof next) == sizeof next) reported = next;
    ::close(pipe[0]);
    std::int64_t found = -1;
    const std::string error = held::error_of([&] { found = held::load(runs, {}); });
    if (found != reported && found != reported + 1) ++wrong;
    BOOST_TEST((found == reported || found == reported + 1),
               "kill " << k << ": " << reported << " was saved, " << found << " found: " << error);
    if (found == reported + 1) ++unreported;
    last = std::max(found, reported);
  }
  BOOST_TEST_MESSAGE(kills << " kills, " << last << " saves, " << unreported
                           << " killed between commit and report");
  BOOST_TEST(wrong == 0);
  BOOST_TEST(last > kills / 10);
  // The next save works and leaves nothing of what was killed.
  held::save(3, 1, last + 1, runs, {.keep = 1});
  BOOST_TEST(held::load(runs, {}) == last + 1);
  for (const fs::directory_entry& entry : fs::directory_iterator(runs)) {
    BOOST_TEST(entry.path().filename().string()[0] != '.', entry.path().string());
  }
}

BOOST_AUTO_TEST_SUITE_END()
