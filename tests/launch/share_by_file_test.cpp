// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Ranks that meet by a file; what earlier runs left there is refused.
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>
#include <zero/comm/launch/share.hpp>
#include <zero/comm/launch/share_by_file.hpp>
#include <zero/comm/run_threads.hpp>

BOOST_AUTO_TEST_SUITE(share_by_file_test)

using namespace std::chrono_literals;
using zero::FileRendezvous;
using zero::LaunchBlob;

LaunchBlob blob(unsigned seed) {
  LaunchBlob made{};
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i] = static_cast<std::byte>((seed + 31 * i) & 0xFF);
  }
  return made;
}

/// A folder that is removed at the end.
struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("zero_share_" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directory(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  FileRendezvous at(const std::string& name, std::string run) const {
    return {.path = (path / name).string(), .run = std::move(run), .time_limit = 100s};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path), {}));
  }
};

/// Why a rank that waits for a moment gets nothing; empty if it gets something.
std::string why_none(FileRendezvous where) {
  where.time_limit = 30ms;
  try {
    zero::share_by_file(where, 1, {});
    return "";
  } catch (const zero::TimeoutError& error) { return error.what(); }
}

void contains(const std::string& text, const std::string& part) {
  BOOST_TEST(text.find(part) != std::string::npos, text << " lacks " << part);
}

BOOST_AUTO_TEST_CASE(all_ranks_get_the_blob_of_rank_0_whoever_comes_first) {
  const Folder folder;
  for (const unsigned late : {0U, 1U}) {
    const FileRendezvous where = folder.at("id", "run " + std::to_string(late));
    std::vector<LaunchBlob> got(4);
    zero::run_threads(4, [&](zero::ThreadCommunicator& comm) {
      if ((comm.rank() == 0) == (late == 0)) std::this_thread::sleep_for(20ms);
      got[comm.rank()] = zero::share_by_file(where, comm.rank(), blob(late + comm.rank() * 0));
    });
    BOOST_TEST((got == std::vector<LaunchBlob>(4, blob(late))));
  }
  BOOST_TEST(folder.files() == 1U);  // the second run's
}

BOOST_AUTO_TEST_CASE(a_file_of_another_run_is_refused_and_replaced) {
  const Folder folder;
  zero::share_by_file(folder.at("id", "monday"), 0, blob(1));
  const std::string text = why_none(folder.at("id", "tuesday"));
  contains(text, "rank 1 found no id of run 'tuesday' in " + folder.at("id", "").path);
  contains(text, "within 30 ms: the file is of another run, 'monday'");
  zero::share_by_file(folder.at("id", "tuesday"), 0, blob(2));
  BOOST_TEST((zero::share_by_file(folder.at("id", "tuesday"), 3, {}) == blob(2)));
}

BOOST_AUTO_TEST_CASE(a_file_of_the_same_name_is_stale_by_its_age_and_refused_by_rank_0) {
  const Folder folder;
  FileRendezvous where = folder.at("id", "same");
  zero::share_by_file(where, 0, blob(1));
  BOOST_TEST(why_none(where) == "");
  where.most_age = 1s;
  zero::detail::LaunchFile file;
  std::ifstream(where.path, std::ios::binary).read(reinterpret_cast<char*>(&file), sizeof file);
  for (const std::int64_t shift_ms : {-5000, 60'000}) {  // the past, and a clock that is wrong
    zero::detail::LaunchFile other = file;
    other.written_ms += shift_ms;
    other.sum = other.right_sum();
    std::ofstream(where.path, std::ios::binary)
        .write(reinterpret_cast<const char*>(&other), sizeof other);
    contains(why_none(where), "the file is stale: it was written ");
  }
  try {
    zero::share_by_file(where, 0, blob(2));
    BOOST_TEST(false);
  } catch (const zero::CommunicatorError& error) {
    contains(error.what(), where.path + ": it holds the id of a run that is called 'same' already");
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_whole_file_is_waited_out) {
  const Folder folder;
  const FileRendezvous where = folder.at("id", "run");
  contains(why_none(where), "there is no such file");
  zero::share_by_file(where, 0, blob(1));
  std::string bytes(sizeof(zero::detail::LaunchFile), ' ');
  std::ifstream(where.path, std::ios::binary)
      .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const auto write = [&](const std::string& text) {
    std::ofstream(where.path, std::ios::binary) << text;
  };
  for (std::size_t i = 0; i < bytes.size(); i += 7) {  // a bit, anywhere
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ 4);
    write(flipped);
    zero::FileRendezvous quick = where;
    quick.time_limit = 1ms;
    BOOST_CHECK_THROW(zero::share_by_file(quick, 1, {}), zero::TimeoutError);
  }
  for (const std::string& text :
       {std::string(), bytes.substr(1), bytes + "x", std::string(1 << 20, 'x')}) {
    write(text);
    contains(why_none(where), "it is no id");
  }
  std::filesystem::remove(where.path);
  BOOST_REQUIRE(::mkfifo(where.path.c_str(), 0600) == 0);  // nobody writes to it, ever
  contains(why_none(where), "it is no id");
  std::filesystem::remove(where.path);
  std::filesystem::create_directory(where.path);
  contains(why_none(where), "it is no id");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_or_is_no_rendezvous_is_an_error) {
  const Folder folder;
  try {
    zero::share_by_file(folder.at("none/id", "run"), 0, {});
    BOOST_TEST(false);
  } catch (const zero::CommunicatorError& error) {
    contains(error.what(), "none/id: it cannot be written: No such file or directory");
  }
  std::filesystem::create_directory(folder.path / "id");
  BOOST_CHECK_THROW(zero::share_by_file(folder.at("id", "run"), 0, {}), zero::CommunicatorError);
  BOOST_TEST(folder.files() == 1U);  // nothing is left beside it
  for (const FileRendezvous& wrong :
       {FileRendezvous{}, FileRendezvous{.path = "id"}, FileRendezvous{.run = "run"},
        folder.at("id", std::string(129, 'x'))}) {
    BOOST_CHECK_THROW(zero::share_by_file(wrong, 0, {}), zero::ContractError);
  }
}

BOOST_AUTO_TEST_CASE(ranks_that_have_a_communicator_share_by_it) {
  std::vector<LaunchBlob> got(3);
  zero::run_threads(3, [&](zero::ThreadCommunicator& comm) {
    got[comm.rank()] = zero::share_by(comm, blob(static_cast<unsigned>(comm.rank()) + 5));
  });
  BOOST_TEST((got == std::vector<LaunchBlob>(3, blob(5))));
}

BOOST_AUTO_TEST_SUITE_END()
