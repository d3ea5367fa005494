// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "../share.hpp"
#include "held.hpp"
#include "memory_files.hpp"

BOOST_AUTO_TEST_SUITE(damage_test)

using files::MemoryFiles;

const std::vector<held::Named> tensors{{"a", {3}}, {"b", {2, 5}}};

/// What a load of a damaged disk says; nothing may have changed.
std::string load_damaged(MemoryFiles& disk, std::size_t ranks, bool& untouched) {
  std::vector<std::string> errors(ranks);
  std::vector<char> same(ranks);
  held::on_ranks(ranks, 1, tensors, [&](held::Holder& holder, zero::ThreadCommunicator& comm) {
    holder.fill(5);
    errors[comm.rank()] =
        held::error_of([&] { zero::load(holder.state, comm, "runs", {.files = &disk}); });
    same[comm.rank()] = holder.is(5);
  });
  untouched = true;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    untouched = untouched && same[rank];
    if (errors[rank].empty()) return {};
  }
  return errors[0];
}

BOOST_AUTO_TEST_CASE(each_flipped_byte_is_found_and_named) {
  MemoryFiles disk;
  held::save(2, 1, 1, "runs", {.chunk_bytes = 64, .files = &disk}, tensors);
  const std::string directory = "runs/step-1/";
  const zero::Manifest manifest =
      zero::detail::read_manifest(disk.contents(directory + "manifest.json"), "manifest");
  std::size_t flipped = 0;
  const auto flip_all = [&](const std::string& path, auto named) {
    std::string& bytes = disk.contents(path);
    for (std::size_t i = 0; i < bytes.size(); i += share, flipped += share) {
      const char right = bytes[i];
      bytes[i] = static_cast<char>(right ^ (1 << (i % 8)));
      bool untouched = false;
      const std::string error = load_damaged(disk, i % 3 + 1, untouched);
      bytes[i] = right;
      BOOST_TEST(untouched, path << " byte " << i);
      const bool found = held::says(error, {"CheckpointError", path.c_str()}) && named(error, i);
      BOOST_TEST(found, path << " byte " << i << ": " << error);
    }
  };
  flip_all(directory + "manifest.json", [](const std::string&, std::size_t) { return true; });
  for (const zero::Manifest::File& file : manifest.files) {
    flip_all(directory + file.name, [&](const std::string& error, std::size_t i) {
      if (i < file.header_bytes) return held::says(error, {"header"});
      std::size_t end = file.header_bytes;
      for (const zero::Manifest::Piece& piece : file.pieces) {
        end += manifest.bytes(piece);
        if (i < end) {
          return held::says(error, {("'" + manifest.tensors[piece.tensor].name + "'").c_str(),
                                    manifest.part(piece).name.c_str()});
        }
      }
      return false;
    });
  }
  BOOST_TEST(flipped > 1000);
  bool untouched = false;
  BOOST_TEST(load_damaged(disk, 2, untouched).empty());
}

BOOST_AUTO_TEST_CASE(files_that_are_shorter_longer_swapped_or_gone_are_found) {
  MemoryFiles disk;
  held::save(2, 1, 1, "runs", {.files = &disk}, tensors);
  const std::string first = "runs/step-1/rank-0.safetensors";
  const auto found = [&](const char* word) {
    bool untouched = false;
    const std::string error = load_damaged(disk, 2, untouched);
    BOOST_TEST(untouched);
    BOOST_TEST(held::says(error, {"CheckpointError", first.c_str(), word}), error);
  };
  std::string& bytes = disk.contents(first);
  const std::string right = bytes;
  bytes.pop_back();
  found("bytes, but its manifest says");
  bytes = right + '\0';
  found("bytes, but its manifest says");
  bytes.clear();
  found("bytes, but its manifest says");
  bytes = disk.contents("runs/step-1/rank-1.safetensors");
  found("damaged");
  bytes = right;
  disk.remove(first);
  found("open");
}

// B108
BOOST_AUTO_TEST_CASE(another_version_is_refused_by_its_number) {
  MemoryFiles disk;
  held::save(1, 1, 1, "runs", {.files = &disk}, tensors);
  std::string& text = disk.contents("runs/step-1/manifest.json");
  const auto with_body = [](std::string body) {
    return std::string(zero::detail::manifest_begin) + zero::detail::Digest::of(body).text() +
           std::string(zero::detail::manifest_middle) + body + "}\n";
  };
  const std::string right = text;
  const std::size_t begin = right.find("{\"version\":1,");
  std::string body = right.substr(begin, right.size() - begin - 2);
  BOOST_TEST(with_body(body) == right);
  body.replace(0, 13, "{\"version\":2,");
  text = with_body(body);
  bool untouched = false;
  const std::string error = load_damaged(disk, 2, untouched);
  BOOST_TEST(held::says(error, {"manifest.json", "version 2"}), error);
}

BOOST_AUTO_TEST_CASE(a_latest_that_leads_elsewhere_is_refused) {
  MemoryFiles disk;
  held::save(1, 1, 1, "runs", {.files = &disk}, tensors);
  std::string& latest = disk.contents("runs/latest");
  BOOST_TEST(latest == "step-1\n");
  for (const char* text : {"", "\n", "..\n", "../runs/step-1\n", "/step-1\n", ".writing-x\n",
                           "step-1\n\n", "step-2\n", "\xFF\n"}) {
    latest = text;
    bool untouched = false;
    const std::string error = load_damaged(disk, 2, untouched);
    BOOST_TEST(held::says(error, {"CheckpointError", "runs/"}), error);
  }
  latest = std::string(1000, 'a');
  bool untouched = false;
  BOOST_TEST(held::says(load_damaged(disk, 1, untouched), {"at most 256"}));
}

/// Manifests with a right digest and wrong contents.
BOOST_AUTO_TEST_CASE(a_manifest_that_does_not_add_up_is_refused) {
  using zero::Manifest;
  MemoryFiles disk;
  held::save(2, 1, 1, "runs", {.files = &disk}, tensors);
  std::string& text = disk.contents("runs/step-1/manifest.json");
  const Manifest right = zero::detail::read_manifest(text, "manifest");
  const auto refused = [&](const char* title, auto change) {
    Manifest wrong = right;
    change(wrong);
    text = zero::detail::write_manifest(wrong);
    bool untouched = false;
    const std::string error = load_damaged(disk, 2, untouched);
    BOOST_TEST(untouched, title);
    BOOST_TEST(held::says(error, {"CheckpointError", "runs/step-1"}), title << ": " << error);
  };
  for (const char* name : {"", ".", "..", "../rank-0.safetensors", "/dev/zero", "manifest.json",
                           "rank-1.safetensors", "a/b"}) {
    refused(name, [&](Manifest& m) { m.files[0].name = name; });
  }
  using Piece = Manifest::Piece;
  const auto piece = [&](const char* title, auto change) {
    refused(title, [&](Manifest& m) { change(m.files[0].pieces[0]); });
  };
  piece("a tensor that is not there", [](Piece& p) { p.tensor = 2; });
  piece("a part that is not there", [](Piece& p) { p.part = 3; });
  piece("a piece of nothing", [](Piece& p) { p.count = 0; });
  piece("a piece that overlaps", [](Piece& p) { p.count += 1; });
  piece("a hole", [](Piece& p) { p.count -= 1; });
  piece("a piece beyond the end", [](Piece& p) { p.begin = 1000; });
  piece("a piece that wraps around", [](Piece& p) { p.count = (1ULL << 58); });
  piece("too few digests", [](Piece& p) { p.chunks.clear(); });
  piece("too many digests", [](Piece& p) { p.chunks.push_back({}); });
  refused("a piece that is missing", [](Manifest& m) { m.files[0].pieces.pop_back(); });
  refused("a piece that is there twice",
          [](Manifest& m) { m.files[0].pieces.push_back(m.files[0].pieces[0]); });
  refused("a file that is missing", [](Manifest& m) { m.files.pop_back(); });
  refused("a tensor twice", [](Manifest& m) { m.tensors[1].name = m.tensors[0].name; });
  refused("a part twice", [](Manifest& m) { m.tensors[0].parts[1].name = "weight"; });
  refused("pieces in another order",
          [](Manifest& m) { std::swap(m.files[0].pieces[0], m.files[0].pieces[1]); });
  refused("chunks of nothing", [](Manifest& m) { m.chunk_bytes = 0; });
  refused("chunks of no power of two", [](Manifest& m) { m.chunk_bytes = 100; });
  refused("chunks that are too large", [](Manifest& m) { m.chunk_bytes = 1ULL << 40; });
  refused("a header of nothing", [](Manifest& m) { m.files[0].header_bytes = 0; });
  refused("a header of everything", [](Manifest& m) { m.files[0].header_bytes = 1ULL << 57; });
  refused("another type", [](Manifest& m) { m.tensors[0].parts[0].type = zero::DataType::bf16; });
  refused("another shape", [](Manifest& m) { m.tensors[0].shape = {1, 3}; });
  refused("another name", [](Manifest& m) { m.tensors[0].name = "z"; });
  text = zero::detail::write_manifest(right);
  bool untouched = false;
  BOOST_TEST(load_damaged(disk, 2, untouched).empty());
}

BOOST_AUTO_TEST_CASE(mutated_manifests_are_refused_or_read_without_harm) {
  MemoryFiles disk;
  held::save(2, 1, 1, "runs", {.files = &disk}, tensors);
  const std::string& text = disk.contents("runs/step-1/manifest.json");
  const std::size_t begin = text.find("{\"version\":1,");
  const std::string body = text.substr(begin, text.size() - begin - 2);
  std::mt19937 random(1);
  std::size_t refused = 0, read = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string mutated = body;
    for (std::size_t n = random() % 3 + 1; n > 0; --n) {
      const std::size_t at = random() % mutated.size();
      const char pool[] = "{}[]\",:0129\\u\xFF\0abe-.";
      switch (random() % 4) {
        case 0: mutated[at] = pool[random() % (sizeof pool - 1)]; break;
        case 1: mutated.erase(at, random() % 20); break;
        case 2: mutated.insert(at, mutated.substr(random() % mutated.size(), random() % 30)); break;
        default: mutated.insert(at, std::string(random() % 25, pool[random() % (sizeof pool - 1)]));
      }
    }
    try {
      zero::detail::ManifestReader(mutated, "a manifest").manifest().check("a manifest");
      ++read;
    } catch (const zero::CheckpointError&) { ++refused; }
  }
  BOOST_TEST(refused > 2000);
  BOOST_TEST(refused + read == 3000);
}

BOOST_AUTO_TEST_SUITE_END()
