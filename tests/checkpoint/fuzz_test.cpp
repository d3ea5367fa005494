// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fuzz/readers.hpp"

BOOST_AUTO_TEST_SUITE(fuzz_test)

/// Inputs that a fuzzer found to go different ways; those called good-... are read, and each of
/// their bytes is then changed in turn.
BOOST_AUTO_TEST_CASE(what_a_fuzzer_found_is_read_or_refused) {
  namespace fs = std::filesystem;
  std::size_t inputs = 0, good = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(__FILE__).parent_path() / "fuzz" / "corpus")) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::string input(std::istreambuf_iterator<char>(file), {});
    const bool read = fuzz::reads(input);
    ++inputs;
    if (!entry.path().filename().string().starts_with("good-")) continue;
    BOOST_TEST(read, entry.path());
    ++good;
    for (std::size_t i = 1; i < std::min<std::size_t>(input.size(), 400); ++i) {
      const char right = input[i];
      for (const char wrong : {'\0', '9', '"', '}', '\xFF'}) {
        input[i] = wrong;
        fuzz::reads(input);
      }
      input[i] = right;
    }
  }
  BOOST_TEST(inputs >= 60);
  BOOST_TEST(good == 5);
}

BOOST_AUTO_TEST_SUITE_END()
