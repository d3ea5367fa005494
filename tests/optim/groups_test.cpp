// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <string>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/optim/groups.hpp>
#include <zero/optim/sgd.hpp>

BOOST_AUTO_TEST_SUITE(groups_test)

using zero::matches;

static_assert(matches("*", "") && matches("*", "a.b") && matches("**", "a"));
static_assert(matches("", "") && !matches("", "a") && !matches("a", ""));
static_assert(matches("a.b", "a.b") && !matches("a.b", "a.bc") && !matches("a.b", "xa.b"));
static_assert(matches("head.*", "head.weight") && !matches("head.*", "ahead.weight"));
static_assert(matches("*.norm.*", "block.3.norm.weight") && !matches("*.norm.*", "norm.weight"));
static_assert(matches("*.bias", "a.bias.bias") && !matches("*.bias", "a.bias.x"));
static_assert(matches("block.*.w*t", "block.11.weight") && !matches("block.*.w*t", "block.1.bias"));
static_assert(matches("*ab*ab", "abxabab") && !matches("*ab*ab", "ab"));

const std::vector<std::string> names{"embed.weight", "block.0.norm.weight", "block.0.qkv.weight",
                                     "head.weight"};
std::string error_of(const zero::Groups<zero::Sgd>& groups) {
  try {
    groups.check();
    (void)groups.of(names);
  } catch (const zero::ContractError& error) { return error.what(); }
  return {};
}
bool mentions(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

BOOST_AUTO_TEST_CASE(each_name_has_the_group_whose_pattern_matches_it_or_the_first) {
  const auto groups =
      zero::groups(zero::Sgd{.learning_rate = 1},
                   {{"*.norm.*", {.learning_rate = 2}}, {"head.*", zero::Sgd{.learning_rate = 3}}});
  BOOST_TEST(groups.of(names) == (std::vector<std::size_t>{0, 1, 0, 2}),
             boost::test_tools::per_element());
  BOOST_TEST(groups[2].learning_rate.at(0) == 3);
  BOOST_TEST(zero::Groups(zero::Sgd{}).of(names) == (std::vector<std::size_t>{0, 0, 0, 0}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_pattern_without_a_tensor_is_an_error_that_names_it) {
  const std::string text = error_of(zero::groups(zero::Sgd{}, {{"haed.*", {}}}));
  BOOST_TEST(mentions(text, "'haed.*' matches no tensor"), text);
  BOOST_TEST(mentions(text, "embed.weight"), text);
}

BOOST_AUTO_TEST_CASE(a_tensor_of_two_patterns_is_an_error_that_names_both) {
  const std::string text = error_of(zero::groups(zero::Sgd{}, {{"block.*", {}}, {"*.qkv.*", {}}}));
  BOOST_TEST(mentions(text, "'block.0.qkv.weight'"), text);
  BOOST_TEST(mentions(text, "'block.*'"), text);
  BOOST_TEST(mentions(text, "'*.qkv.*'"), text);
}

BOOST_AUTO_TEST_CASE(a_setting_that_makes_no_sense_names_its_group) {
  const std::string text = error_of(zero::groups(zero::Sgd{}, {{"head.*", {.learning_rate = -1}}}));
  BOOST_TEST(mentions(text, "Sgd::learning_rate"), text);
  BOOST_TEST(mentions(text, "'head.*'"), text);
}

BOOST_AUTO_TEST_SUITE_END()
