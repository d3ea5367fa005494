// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "held.hpp"
#include "memory_files.hpp"

BOOST_AUTO_TEST_SUITE(save_test)

using files::MemoryFiles;

/// The names in a directory that are visible: not those that begin with a dot.
std::vector<std::string> visible(MemoryFiles& disk, const std::string& path) {
  std::vector<std::string> names = disk.names_in(path);
  std::erase_if(names, [](const std::string& name) { return name[0] == '.'; });
  return names;
}

// B43, B48
BOOST_AUTO_TEST_CASE(what_n_ranks_save_m_ranks_load) {
  for (const std::size_t n : {1, 2, 3, 4, 5, 6, 7, 8}) {
    MemoryFiles disk;
    held::save(n, 1, 7, "a/b/runs", {.files = &disk});
    for (const std::size_t m : {1, 2, 3, 4, 5, 6, 7, 8}) {
      std::vector<char> same(m);
      held::on_ranks(m, 1, held::odd_tensors(),
                     [&](held::Holder& holder, zero::ThreadCommunicator& comm) {
                       zero::load(holder.state, comm, "a/b/runs", {.files = &disk});
                       same[comm.rank()] = holder.is(7);
                     });
      BOOST_TEST(std::count(same.begin(), same.end(), 1) == static_cast<std::ptrdiff_t>(m),
                 n << " to " << m);
    }
    BOOST_TEST(disk.open_files() == 0);
  }
}

// B109
BOOST_AUTO_TEST_CASE(replicas_write_each_element_once_in_equal_parts) {
  MemoryFiles disk;
  const std::vector<held::Named> tensors{{"w", {64}}};
  held::save(4, 2, 1, "runs", {.files = &disk}, tensors);
  const std::string text = disk.contents("runs/step-1/manifest.json");
  const zero::Manifest manifest = zero::detail::read_manifest(text, "manifest");
  BOOST_TEST(manifest.files.size() == 4);
  for (const zero::Manifest::File& file : manifest.files) {
    std::size_t elements = 0;
    for (const zero::Manifest::Piece& piece : file.pieces) elements += piece.count;
    BOOST_TEST(elements == 3 * 64 / 4);
    BOOST_TEST(disk.contents("runs/step-1/" + file.name).size() ==
               file.header_bytes + 4 * elements);
  }
  BOOST_TEST(held::load("runs", {.files = &disk}, tensors) == 1);
}

// B109
BOOST_AUTO_TEST_CASE(replicas_that_differ_are_reported) {
  MemoryFiles disk;
  for (const std::size_t wrong : {0, 1, 2, 3}) {
    std::vector<std::string> errors(4);
    held::on_ranks(
        4, 2, held::odd_tensors(), [&](held::Holder& holder, zero::ThreadCommunicator& comm) {
          holder.fill(3);
          for (zero::HeldTensor& tensor : holder.state.tensors) {
            if (comm.rank() != wrong || tensor.name != "d") continue;
            for (const zero::HeldRange& range : tensor.parts[1].ranges) {
              *static_cast<float*>(range.data) += 1;
            }
          }
          errors[comm.rank()] =
              held::error_of([&] { zero::save(holder.state, comm, "runs", {.files = &disk}); });
        });
    for (const std::string& error : errors) {
      BOOST_TEST(held::says(error, {"CheckpointError", "'d'", "state.0", "differs"}), error);
    }
  }
  BOOST_TEST(visible(disk, "runs").empty());
}

BOOST_AUTO_TEST_CASE(counters_that_differ_are_reported) {
  MemoryFiles disk;
  std::vector<std::string> errors(2);
  held::on_ranks(
      2, 1, held::odd_tensors(), [&](held::Holder& holder, zero::ThreadCommunicator& comm) {
        holder.fill(3).state.tensors[1].counter += comm.rank();
        errors[comm.rank()] =
            held::error_of([&] { zero::save(holder.state, comm, "runs", {.files = &disk}); });
      });
  for (const std::string& error : errors) BOOST_TEST(held::says(error, {"different", "counters"}));
}

BOOST_AUTO_TEST_CASE(a_name_may_be_used_again_and_the_older_ones_go) {
  MemoryFiles disk;
  for (const std::int64_t version : {1, 2, 3}) {
    held::save(2, 1, version, "runs", {.keep = 2, .files = &disk});
    BOOST_TEST(held::load("runs", {.files = &disk}) == version);
  }
  BOOST_TEST(visible(disk, "runs") == (std::vector<std::string>{"latest", "step-2", "step-3"}),
             boost::test_tools::per_element());
  held::save(3, 1, 9, "runs", {.name = "best", .files = &disk});
  held::save(2, 1, 10, "runs", {.name = "best", .keep = 1, .files = &disk});
  BOOST_TEST(held::load("runs", {.files = &disk}) == 10);
  BOOST_TEST(held::load("runs/best", {.files = &disk}) == 10);
  BOOST_TEST(held::load("runs/step-3", {.files = &disk}) == 3);
  BOOST_TEST(disk.names_in("runs") == (std::vector<std::string>{"best", "latest", "step-3"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_checkpoint_older_than_others_stays_when_it_was_saved_last) {
  MemoryFiles disk;
  for (const std::int64_t version : {20, 30, 12}) {
    held::save(1, 1, version, "runs", {.keep = 1, .files = &disk});
  }
  BOOST_TEST(held::load("runs", {.files = &disk}) == 12);
}

BOOST_AUTO_TEST_CASE(what_the_user_hands_over_comes_back) {
  MemoryFiles disk;
  const std::map<std::string, std::string> user{{"data", "17 \"of\" 20\n\t\x01"}, {"\xC3\xA9", ""}};
  held::save(2, 1, 1, "runs", {.user = user, .files = &disk});
  held::Holder holder(held::odd_tensors(), 1, 0);
  const zero::LoadReport report =
      zero::load(holder.state, zero::SelfCommunicator(), "runs", {.files = &disk});
  BOOST_TEST((report.user == user));
  BOOST_TEST(report.path == "runs/step-1");
  BOOST_TEST(report.step == 1);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_saved_is_refused) {
  MemoryFiles disk;
  const auto refused = [&](const zero::SaveOptions& options, const char* word) {
    const std::string error = held::error_of([&] { held::save(2, 1, 1, "runs", options); });
    BOOST_TEST(held::says(error, {"CheckpointError", word}), error);
  };
  for (const char* name : {"latest", "..", ".hidden", "a/b", "\xFF"}) {
    refused({.name = name, .files = &disk}, "cannot name a checkpoint");
  }
  refused({.chunk_bytes = 0, .files = &disk}, "chunk_bytes");
  refused({.chunk_bytes = 96, .files = &disk}, "chunk_bytes");
  refused({.user = {{"key", "\xFF"}}, .files = &disk}, "UTF-8");
  BOOST_TEST(visible(disk, ".").empty());
}

// B91
BOOST_AUTO_TEST_CASE(a_rank_reads_its_own_part_and_at_most_a_chunk_beside_it) {
  MemoryFiles disk;
  constexpr std::size_t n = 12'000, chunk = 256;
  const std::vector<held::Named> tensors{{"w", {n}}};
  held::save(4, 1, 1, "runs", {.chunk_bytes = chunk, .files = &disk}, tensors);
  std::vector<std::size_t> read(3);
  held::on_ranks(3, 1, tensors, [&](held::Holder& holder, zero::ThreadCommunicator& comm) {
    read[comm.rank()] = zero::load(holder.state, comm, "runs", {.files = &disk}).bytes_read;
  });
  for (const std::size_t bytes : read) {
    // Three parts of a third of the tensor; a chunk more on either side of each; two headers.
    BOOST_TEST(bytes >= 3 * 4 * n / 3);
    BOOST_TEST(bytes <= 3 * (4 * n / 3 + 2 * chunk) + 2 * 400);
  }
}

BOOST_AUTO_TEST_CASE(parts_of_any_size_lie_in_the_file_in_their_order) {
  MemoryFiles disk;
  std::string all;
  {
    zero::detail::OutFile out(disk, "file");
    std::size_t number = 0;
    for (const std::size_t size : {100, 200'000, 1, 131'072, 131'073, 7, 262'144, 5, 262'145,
                                   90'000, 90'000, 90'000, 140'000, 0, 3}) {
      const std::string part(size, static_cast<char>('a' + number++));
      out.write(part.data(), part.size());
      all += part;
    }
    out.finish();
  }
  BOOST_TEST((zero::detail::read_text(disk, "file", all.size()) == all));
}

BOOST_AUTO_TEST_SUITE_END()
