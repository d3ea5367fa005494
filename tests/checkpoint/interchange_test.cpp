// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "loaded.hpp"

BOOST_AUTO_TEST_SUITE(interchange_test)

using namespace loaded;

/// A folder as others write it, of two files; `index` replaces its index.
void write_folder(MemoryFiles& disk, const std::string& index = {}) {
  disk.make_directory("hf");
  put(disk, "hf/one.safetensors", file_of({stored("x.a", "BF16", {3})}, 1));
  put(disk, "hf/two.safetensors",
      file_of({stored("x.b", "F32", {2, 5}), stored("ids", "I64", {2})}, 4));
  put(disk, "hf/model.safetensors.index.json",
      !index.empty() ? index
                     : "{\"metadata\": {\"total_size\": 6.2e1, \"more\": [null, {\"a\": -1}]}, "
                       "\"weight_map\": {\"x.a\": \"one.safetensors\", \"x.b\": "
                       "\"two.safetensors\", \"ids\": \"two.safetensors\"}}\n");
}
std::string renamed(const std::string& name) { return "x." + name; }

BOOST_AUTO_TEST_CASE(a_folder_of_others_loads_straight_into_shards) {
  MemoryFiles disk;
  write_folder(disk);
  for (const std::size_t ranks : {1, 2, 3, 5}) {
    const Loaded loaded = load(disk, ranks, "hf", {.names = renamed, .relaxed = true});
    BOOST_TEST(loaded.errors == std::vector<std::string>(ranks), loaded.errors[0]);
    BOOST_TEST((loaded.weights == std::vector{from(1, 3), from(4, 10)}));
    BOOST_TEST(loaded.rest_is_left);
    BOOST_TEST(loaded.report.missing.empty());
    BOOST_TEST(loaded.report.unexpected == std::vector<std::string>{"ids"});
    const std::size_t most = (13 + ranks - 1) / ranks + 4;  // a shard is padded to 4
    BOOST_TEST(loaded.most_bytes <= most * 4);
  }
  // One file, by a table, and two tensors of the same name in it.
  const std::vector<held::Named> tied{{"b", {2, 5}}, {"c", {2, 5}}};
  disk.remove("hf/two.safetensors");
  put(disk, "hf/two.safetensors", file_of({stored("x.b", "F32", {2, 5})}, 4));
  const Loaded one =
      load(disk, 2, "hf/two.safetensors", {.table = {{"b", "x.b"}, {"c", "x.b"}}}, tied);
  BOOST_TEST(one.errors[0] == "");
  BOOST_TEST((one.weights == std::vector{from(4, 10), from(4, 10)}));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_an_error_on_all_ranks_before_anything_changes) {
  struct Wrong {
    zero::LoadWeightsOptions options;
    std::vector<held::Named> tensors;
    std::initializer_list<const char*> text;
  };
  MemoryFiles disk;
  write_folder(disk);
  const Wrong all[] = {
      {{}, small, {"missing in the files: 'a', 'b'", "only in the files: 'ids', 'x.a', 'x.b'"}},
      {{.names = renamed}, small, {"missing in the files: none", "only in the files: 'ids'"}},
      {{.table = {{"a", ""}, {"b", "y"}}}, small, {"missing in the files: 'a', 'b (y)'"}},
      {{.names = renamed, .relaxed = true},
       {{"a", {3}}, {"b", {5, 2}}},
       {"x.b", "[2, 5]", "[5, 2]"}},
      {{.names = renamed, .relaxed = true}, {{"a", {4}}}, {"x.a", "[3]", "[4]"}},
      {{.table = {{"a", "ids"}}, .relaxed = true}, {{"a", {2}}}, {"'ids' is I64"}},
      {{.names = [](const std::string&) -> std::string { throw zero::Error("my own"); }},
       small,
       {"my own"}}};
  for (const Wrong& wrong : all) {
    const Loaded loaded = load(disk, 3, "hf", wrong.options, wrong.tensors);
    for (const std::string& error : loaded.errors) {
      BOOST_TEST(held::says(error, {"CheckpointError: zero::load_weights failed on rank 0"}),
                 error);
      BOOST_TEST(held::says(error, wrong.text), error);
    }
    BOOST_TEST(loaded.weights[0][1] == 100'001);  // of version 1
  }
  disk.remove("hf/two.safetensors");
  BOOST_TEST(held::says(load(disk, 2, "hf", {}).errors[1], {"open", "two.safetensors"}));
}

BOOST_AUTO_TEST_CASE(hostile_indices_are_refused) {
  const std::string one = "\"x.a\":\"one.safetensors\"", two = "\"x.b\":\"two.safetensors\"";
  const std::string ids = ",\"ids\":\"two.safetensors\"";
  const auto map = [](const std::string& text) { return "{\"weight_map\":{" + text + "}}"; };
  std::vector<std::string> hostile{"",
                                   "{}",
                                   "[]",
                                   map(""),
                                   map(one + "," + two),
                                   map(one + "," + two + ids + ",\"no\":\"two.safetensors\""),
                                   map("\"x.a\":\"two.safetensors\"," + two + ids),
                                   map(one + "," + one + "," + two + ids),
                                   map(one + "," + two + ids) + "x",
                                   "{\"weight_map\":{" + one + "},\"weight_map\":{}}",
                                   "{\"metadata\":}",
                                   "{\"metadata\":x,\"weight_map\":{" + one + "}}"};
  for (const char* name : {"../hf/one.safetensors", "/etc/passwd", "..", "", "one",
                           "a/b.safetensors", "two.safetensors\\u0000.safetensors"}) {
    hostile.push_back(map("\"x.a\":\"" + std::string(name) + "\"," + two + ids));
  }
  hostile.push_back("{\"metadata\":" + std::string(100'000, '[') + "}");
  for (const std::string& index : hostile) {
    MemoryFiles disk;
    write_folder(disk, index.empty() ? " " : index);
    const std::string error = held::error_of([&] { zero::WeightFiles("hf", disk); });
    BOOST_TEST(held::says(error, {"CheckpointError", "model.safetensors.index.json", "damaged or"}),
               index.substr(0, 100) << ": " << error);
  }
  MemoryFiles disk;
  write_folder(disk, map(one + "," + two + ids));
  BOOST_TEST(zero::WeightFiles("hf/", disk).tensors().size() == 3);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_goes_out_to_a_folder_and_comes_back) {
  MemoryFiles disk;
  held::save(3, 1, 7, "runs", {.chunk_bytes = 64, .files = &disk});
  zero::StoredCheckpoint whole("runs", disk);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen;
  zero::merge(whole, "out/", {.file_bytes = 50, .progress = [&](auto done, auto all) {
                                seen.emplace_back(done, all);
                              }});
  // 4, 28 | 20, 0 | 176 bytes.
  std::vector<std::string> names = disk.names_in("out");
  std::sort(names.begin(), names.end());
  BOOST_TEST(names == (std::vector<std::string>{
                          "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                          "model-00003-of-00003.safetensors", "model.safetensors.index.json"}));
  BOOST_TEST(seen.size() == 5);
  BOOST_TEST((seen.back() == std::pair<std::uint64_t, std::uint64_t>(228, 228)));
  BOOST_TEST(
      held::says(zero::detail::read_text(disk, "out/model.safetensors.index.json", 1000),
                 {"{\"metadata\":{\"total_size\":228},\"weight_map\":{\"a\":\"model-00001"}));
  BOOST_TEST(held::says(held::error_of([&] { zero::merge(whole, "out"); }), {"'out' is there"}));

  // Into a checkpoint again, chunk by chunk, and straight into shards.
  const zero::ImportReport made =
      zero::import_weights("out", "back", {.save = {.chunk_bytes = 64, .files = &disk}});
  BOOST_TEST(made.path == "back/step-0");
  std::vector<char> good(4), straight(4);
  held::on_ranks(4, 1, held::odd_tensors(), [&](held::Holder& holder, auto& comm) {
    zero::load(holder.state, comm, "back", {.weights_only = true, .files = &disk});
    good[comm.rank()] = holder.is(7, true);
    held::Holder other(held::odd_tensors(), 4, comm.rank());
    zero::load_weights(other.state, comm, "out", {.files = &disk});
    straight[comm.rank()] = other.is(7, true);
  });
  BOOST_TEST((good == std::vector<char>(4, 1)));
  BOOST_TEST((straight == std::vector<char>(4, 1)));
  zero::StoredCheckpoint back("back", disk);
  zero::merge(whole, "a.safetensors");
  zero::merge(back, "b.safetensors");
  BOOST_TEST((zero::detail::read_text(disk, "a.safetensors", 10'000) ==
              zero::detail::read_text(disk, "b.safetensors", 10'000)));
}

BOOST_AUTO_TEST_CASE(types_are_converted_and_narrowed_only_when_asked) {
  MemoryFiles disk;
  write_folder(disk);
  const auto import = [&](zero::ImportOptions options) {
    options.save.files = &disk;
    return zero::import_weights("hf", "made", options);
  };
  const zero::DataType bf16 = zero::DataType::bf16, fp32 = zero::DataType::fp32;
  BOOST_TEST(held::says(held::error_of([&] { import({}); }), {"'ids'", ".relaxed"}));
  BOOST_TEST(held::says(held::error_of([&] { import({.type = bf16, .relaxed = true}); }),
                        {"'x.b'", "fp32", "bf16", ".narrowing"}));
  BOOST_TEST(import({.type = fp32, .relaxed = true}).left_out == std::vector<std::string>{"ids"});
  zero::StoredCheckpoint wide("made", disk);
  BOOST_TEST(held::says(held::error_of([&] { zero::merge(wide, "w", {.type = bf16}); }),
                        {"'x.a'", ".narrowing"}));
  zero::merge(wide, "w", {.type = bf16, .narrowing = true});
  const Loaded narrow = load(disk, 2, "w", {.names = renamed});
  BOOST_TEST(narrow.errors[0] == "");
  BOOST_TEST((narrow.weights == std::vector{from(1, 3), from(4, 10)}));  // bf16 holds these
  zero::WeightFiles files("w", disk);
  for (const zero::WeightFiles::Tensor& tensor : files.tensors()) {
    BOOST_TEST(tensor.stored.type == "BF16");
  }
  // fp64 narrows to fp32 on the way into a module.
  put(disk, "d.safetensors", file_of({stored("a", "F64", {3})}, 1));
  const std::vector<held::Named> a{{"a", {3}}};
  BOOST_TEST(held::says(load(disk, 2, "d.safetensors", {}, a).errors[1], {"fp64", ".narrowing"}));
  BOOST_TEST((load(disk, 2, "d.safetensors", {.narrowing = true}, a).weights[0] == from(1, 3)));
}

BOOST_AUTO_TEST_CASE(a_failure_of_any_call_is_an_error_on_all_ranks) {
  MemoryFiles disk;
  write_folder(disk);
  std::size_t failed = 0, n = 0;
  for (bool reached = true; reached; ++n) {
    reached = false;
    files::FaultyFiles faulty(disk,
                              [&](std::size_t call, const std::string& name, std::int64_t& r) {
                                r = -EIO;
                                reached = reached || call == n;
                                return call == n && name != "close";
                              });
    std::vector<std::string> errors(2);
    std::vector<char> untouched(2);
    held::on_ranks(2, 1, small, [&](held::Holder& holder, zero::ThreadCommunicator& comm) {
      holder.fill(1);
      errors[comm.rank()] = held::error_of([&] {
        zero::load_weights(holder.state, comm, "hf",
                           {.names = renamed, .relaxed = true, .files = &faulty});
      });
      untouched[comm.rank()] = holder.is(1);
    });
    BOOST_TEST(errors[0].empty() == errors[1].empty());
    for (const std::size_t rank : {0, 1}) {
      failed += errors[rank].empty() ? 0 : 1;
      BOOST_TEST((errors[rank].empty() || untouched[rank] ||
                  held::says(errors[rank], {"may have changed"})),
                 errors[rank]);
    }
    BOOST_TEST(disk.open_files() == 0);
  }
  BOOST_TEST(failed > 40);
}

BOOST_AUTO_TEST_SUITE_END()
