// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Tensors of others that are joined or transposed on their way into shards.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "loaded.hpp"

BOOST_AUTO_TEST_SUITE(weight_sources_test)

using namespace loaded;
using zero::WeightSource;

/// Elements 0, 1, 2, ... of each stored tensor in turn: q [2, 3], k [1, 3], v [1, 3], then conv,
/// which is [3, 4] for a weight [4, 3], and two halves of the same, of 3 columns and of 1.
void write(MemoryFiles& disk) {
  disk.make_directory("hf");
  put(disk, "hf/model.safetensors",
      file_of({stored("q", "F32", {2, 3}), stored("k", "F32", {1, 3}), stored("v", "F32", {1, 3}),
               stored("conv", "F32", {3, 4}), stored("left", "F32", {3, 3}),
               stored("right", "F32", {3, 1})},
              0));
}
const std::vector<held::Named> tensors{{"qkv", {4, 3}}, {"out", {4, 3}}, {"up", {4, 3}}};
WeightSource source_of(const std::string& name) {
  if (name == "qkv") return {.names = {"v", "q", "k"}};
  if (name == "up") return {.names = {"left", "right"}, .transposed = true};
  return {.names = {"conv"}, .transposed = true};
}

BOOST_AUTO_TEST_CASE(matrices_are_joined_and_transposed_on_any_number_of_ranks) {
  MemoryFiles disk;
  write(disk);
  for (const std::size_t ranks : {1, 2, 3, 5}) {
    const Loaded got = load(disk, ranks, "hf", {.sources = source_of}, tensors);
    BOOST_TEST(got.errors == std::vector<std::string>(ranks), got.errors[0]);
    BOOST_TEST(got.weights[0] == (std::vector<float>{9, 10, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8}));
    BOOST_TEST(got.weights[1] ==
               (std::vector<float>{12, 16, 20, 13, 17, 21, 14, 18, 22, 15, 19, 23}));
    BOOST_TEST(got.weights[2] ==
               (std::vector<float>{24, 27, 30, 25, 28, 31, 26, 29, 32, 33, 34, 35}));
    BOOST_TEST(got.rest_is_left);
  }
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_together_is_an_error_on_all_ranks) {
  MemoryFiles disk;
  write(disk);
  struct Wrong {
    WeightSource source;
    std::initializer_list<const char*> text;
  };
  for (const Wrong& wrong :
       {Wrong{{.names = {"q", "k"}}, {"'k' has the shape [1, 3], and is joined", "[4, 3]"}},
        Wrong{{.names = {"q", "q", "v"}}, {"'v' has the shape [1, 3], and is joined"}},
        Wrong{{.names = {"q", "right"}}, {"'right' has the shape [3, 1], and is joined"}},
        Wrong{{.names = {"q"}, .transposed = true}, {"'q' has the shape [2, 3], transposed"}},
        Wrong{{.names = {"conv"}}, {"'conv' has the shape [3, 4], but 'qkv' has [4, 3]"}},
        Wrong{{.names = {"q", "none", "v"}}, {"missing in the files: 'qkv (none)'"}}}) {
    const Loaded got =
        load(disk, 2, "hf", {.sources = [&](const std::string&) { return wrong.source; }},
             {{"qkv", {4, 3}}});
    for (const std::string& error : got.errors) BOOST_TEST(held::says(error, wrong.text), error);
    BOOST_TEST(got.weights[0][1] == 100'001);  // as before
  }
}

BOOST_AUTO_TEST_CASE(numbers_without_a_dimension_are_not_joined) {
  MemoryFiles disk;
  disk.make_directory("hf");
  put(disk, "hf/model.safetensors", file_of({stored("a", "F32", {}), stored("b", "F32", {})}, 0));
  const auto both = [](const std::string&) { return WeightSource{.names = {"a", "b"}}; };
  const Loaded got = load(disk, 1, "hf", {.sources = both}, {{"scale", {}}});
  BOOST_TEST(held::says(got.errors[0], {"joined with others, but", "'scale'"}), got.errors[0]);
}

BOOST_AUTO_TEST_SUITE_END()
