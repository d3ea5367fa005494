// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Where Boost is not installed: the part of Boost.Test that tests/cuda uses, so that
// scripts/gpu-check.sh needs a compiler only. With BOOST_TEST_MODULE it holds main(), which takes
// from the command line what tests/tree/run_cases.sh passes.
#pragma once

#include <boost/test/stand_in.hpp>

#define ZERO_JOIN_TWO(a, b) a##b
#define ZERO_JOIN(a, b) ZERO_JOIN_TWO(a, b)

#define BOOST_AUTO_TEST_SUITE(suite) \
  namespace suite {                  \
  constexpr const char* boost_suite = #suite;
#define BOOST_AUTO_TEST_SUITE_END() }

#define BOOST_AUTO_TEST_CASE(name)                              \
  static void name##_case();                                    \
  static const ::boost::stand_in::Registered name##_registered( \
      {boost_suite, #name, __FILE__, __LINE__, &name##_case});  \
  static void name##_case()
#define BOOST_AUTO_TEST_CASE_TEMPLATE(name, Type, Types)                                 \
  template <class Type>                                                                  \
  struct name##_case {                                                                   \
    static void run();                                                                   \
  };                                                                                     \
  static const ::boost::stand_in::RegisteredTypes<name##_case, Types> name##_registered( \
      {boost_suite, #name, __FILE__, __LINE__, nullptr});                                \
  template <class Type>                                                                  \
  void name##_case<Type>::run()

#define BOOST_TEST_CONTEXT(words)                                           \
  if (const ::boost::stand_in::Context ZERO_JOIN(                           \
          context_, __LINE__)((::boost::stand_in::Note() << words).text()); \
      true)
#define BOOST_TEST_MESSAGE(words) \
  ::boost::stand_in::message((::boost::stand_in::Note() << words).text())

// `required` ends the case. What follows the expression is a text, or a tolerance.
#define ZERO_CHECK(required, expression, ...)                                               \
  ::boost::stand_in::check(::boost::stand_in::Begin() <= expression, #expression, __FILE__, \
                           __LINE__, required,                                              \
                           ::boost::stand_in::Note() __VA_OPT__(<<) __VA_ARGS__)
#define BOOST_TEST(...) ZERO_CHECK(false, __VA_ARGS__)
#define BOOST_TEST_REQUIRE(...) ZERO_CHECK(true, __VA_ARGS__)
#define BOOST_REQUIRE(...) ZERO_CHECK(true, (__VA_ARGS__))
#define BOOST_REQUIRE_EQUAL(a, b) ZERO_CHECK(true, (a) == (b))
#define BOOST_REQUIRE_MESSAGE(expression, text) ZERO_CHECK(true, (expression), text)
#define BOOST_CHECK_MESSAGE(expression, text) ZERO_CHECK(false, (expression), text)

#define BOOST_CHECK_EXCEPTION(expression, Error, predicate)                                   \
  ::boost::stand_in::check_throws<Error>([&] { static_cast<void>(expression); }, #expression, \
                                         __FILE__, __LINE__, predicate)
#define BOOST_CHECK_THROW(expression, Error) \
  BOOST_CHECK_EXCEPTION(expression, Error, [](const Error&) { return true; })

#ifdef BOOST_TEST_MODULE
int main(int count, char** arguments) { return ::boost::stand_in::run(count, arguments); }
#endif
