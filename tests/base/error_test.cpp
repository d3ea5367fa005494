// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <boost/test/unit_test.hpp>
#include <concepts>
#include <stdexcept>
#include <string>
#include <zero/base/error.hpp>
#include <zero/base/version.hpp>

BOOST_AUTO_TEST_SUITE(error_test)

static_assert(std::derived_from<zero::Error, std::runtime_error>);
static_assert(std::derived_from<zero::ContractError, zero::Error>);
static_assert(std::derived_from<zero::DeviceError, zero::Error>);
static_assert(std::derived_from<zero::CommunicatorError, zero::Error>);
static_assert(std::derived_from<zero::TimeoutError, zero::CommunicatorError>);
static_assert(zero::version_major == 0 && zero::version_minor == 1 && zero::version_patch == 0);

BOOST_AUTO_TEST_CASE(every_error_is_caught_as_one_type_and_keeps_its_text) {
  const auto text = [](const auto& error) {
    try {
      throw error;
    } catch (const zero::Error& caught) { return std::string(caught.what()); }
  };
  BOOST_TEST(text(zero::ContractError("a")) == "a");
  BOOST_TEST(text(zero::DeviceError("b")) == "b");
  BOOST_TEST(text(zero::CommunicatorError("c")) == "c");
  BOOST_TEST(text(zero::TimeoutError("d")) == "d");
}

BOOST_AUTO_TEST_SUITE_END()
