// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What the macros of unit_test.hpp call. Assertions belong to the main thread, as with Boost.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace boost::test_tools {

/// How far two numbers may lie apart, as a part of the smaller one.
struct tolerance {
  explicit tolerance(double most) : part(most) {}
  double part;
};

}  // namespace boost::test_tools

namespace boost::stand_in {

struct Case {
  const char* suite;
  std::string name;
  const char* file;
  int line;
  std::function<void()> run;
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

struct Registered {
  explicit Registered(Case made) { cases().push_back(std::move(made)); }
};

/// One case for each type of a tuple.
template <template <class> class Body, class Types>
struct RegisteredTypes;
template <template <class> class Body, class... Ts>
struct RegisteredTypes<Body, std::tuple<Ts...>> {
  explicit RegisteredTypes(const Case& made) {
    std::size_t number = 0;
    (add(made, number++, &Body<Ts>::run), ...);
  }

 private:
  static void add(Case made, std::size_t number, void (*run)()) {
    made.name += "<" + std::to_string(number) + ">";
    made.run = run;
    cases().push_back(std::move(made));
  }
};

/// What stands behind an expression.
class Note {
 public:
  template <class T>
  Note& operator<<(const T& value) {
    text_ << value;
    return *this;
  }
  Note& operator<<(test_tools::tolerance allowed) {
    tolerance_ = allowed.part;
    return *this;
  }
  std::string text() const { return text_.str(); }
  double tolerance() const { return tolerance_; }

 private:
  std::ostringstream text_;
  double tolerance_ = 0;
};

template <class T>
std::string shown(const T& value) {
  if constexpr (requires(std::ostream & out) { out << value; }) {
    std::ostringstream out;
    out.precision(17);
    out << std::boolalpha << value;
    return out.str();
  } else {
    return "?";
  }
}

/// The result of an expression, and what to say of it if it is false.
struct Value {
  bool holds;
  std::string text;
};

/// The left side of an expression, which a comparison may follow.
template <class L>
class Left {
 public:
  explicit Left(const L& left) : left_(left) {}

  Value value(double) const { return {static_cast<bool>(left_), "it is false"}; }

  template <class R>
  friend auto operator==(const Left& a, const R& right) {
    return a.compare(right, "==", [](const L& x, const R& y) { return x == y; });
  }
  template <class R>
  friend auto operator!=(const Left& a, const R& right) {
    return a.compare(right, "!=", [](const L& x, const R& y) { return x != y; });
  }
  template <class R>
  friend auto operator<(const Left& a, const R& right) {
    return a.compare(right, "<", [](const L& x, const R& y) { return x < y; });
  }
  template <class R>
  friend auto operator>(const Left& a, const R& right) {
    return a.compare(right, ">", [](const L& x, const R& y) { return x > y; });
  }
  template <class R>
  friend auto operator<=(const Left& a, const R& right) {
    return a.compare(right, "<=", [](const L& x, const R& y) { return x <= y; });
  }
  template <class R>
  friend auto operator>=(const Left& a, const R& right) {
    return a.compare(right, ">=", [](const L& x, const R& y) { return x >= y; });
  }

 private:
  template <class R, class F>
  class Comparison {
   public:
    Comparison(const L& left, const R& right, const char* sign, F holds)
        : left_(left), right_(right), sign_(sign), holds_(holds) {}

    Value value(double tolerance) const {
      bool holds = holds_(left_, right_);
      if constexpr (std::is_arithmetic_v<L> && std::is_arithmetic_v<R>) {
        const double a = static_cast<double>(left_), b = static_cast<double>(right_);
        const bool close = std::abs(a - b) <= tolerance * std::min(std::abs(a), std::abs(b));
        holds = holds || (tolerance > 0 && close);
      }
      if (holds) return {true, {}};
      return {false, shown(left_) + " " + sign_ + " " + shown(right_) + " is false"};
    }

   private:
    const L& left_;
    const R& right_;
    const char* sign_;
    F holds_;
  };
  template <class R, class F>
  Comparison<R, F> compare(const R& right, const char* sign, F holds) const {
    return {left_, right, sign, holds};
  }

  const L& left_;
};

/// Binds to what comes first in an expression: `Begin() <= a == b` is `(Begin() <= a) == b`.
struct Begin {
  template <class L>
  Left<L> operator<=(const L& left) const {
    return Left<L>(left);
  }
};

/// What is known of the case that runs.
struct Running {
  std::size_t failures = 0;
  std::vector<std::string> contexts;
};
inline Running& running() {
  static Running only;
  return only;
}

class Context {
 public:
  explicit Context(std::string text) { running().contexts.push_back(std::move(text)); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { running().contexts.pop_back(); }
};

inline void message(const std::string& text) { std::cout << text << std::endl; }

inline void fail(const char* file, int line, const std::string& text) {
  ++running().failures;
  std::cout << file << "(" << line << "): error: " << text;
  for (const std::string& context : running().contexts) std::cout << "\n    in: " << context;
  std::cout << std::endl;
}

/// Ends a case.
struct Ended {};

template <class Expression>
void check(const Expression& expression, const char* text, const char* file, int line,
           bool required, const Note& note) {
  const Value value = expression.value(note.tolerance());
  if (value.holds) return;
  const std::string more = note.text();
  fail(file, line, std::string(text) + ": " + value.text + (more.empty() ? "" : ": " + more));
  if (required) throw Ended();
}

template <class Error, class F, class Predicate>
void check_throws(const F& f, const char* text, const char* file, int line,
                  const Predicate& predicate) {
  try {
    f();
  } catch (const Error& error) {
    if (predicate(error)) return;
    std::string what = "another error than expected";
    if constexpr (requires { error.what(); }) what += std::string(": ") + error.what();
    return fail(file, line, std::string(text) + ": " + what);
  }
  fail(file, line, std::string(text) + ": no error");
}

inline bool run_case(const Case& made) {
  std::cout << made.file << "(" << made.line << "): Entering test case \"" << made.name << "\""
            << std::endl;
  running() = {};
  try {
    made.run();
  } catch (const Ended&) {
  } catch (const std::exception& error) {
    fail(made.file, made.line, std::string("an exception left the case: ") + error.what());
  } catch (...) { fail(made.file, made.line, "something left the case"); }
  return running().failures == 0;
}

/// Lists the suites and cases, or runs those of one suite.
inline int run(int count, char** arguments) {
  std::string suite, report;
  bool lists = false;
  const auto value_of = [](const std::string& argument, const std::string& name, std::string& to) {
    if (argument.rfind(name, 0) == 0) to = argument.substr(name.size());
  };
  for (int k = 1; k < count; ++k) {
    value_of(arguments[k], "--run_test=", suite);
    value_of(arguments[k], "--report_sink=", report);
    lists = lists || std::string(arguments[k]) == "--list_content";
  }
  std::size_t passed = 0, failed = 0;
  std::string last;
  for (const Case& made : cases()) {
    if (lists) {
      if (last != made.suite) std::cout << made.suite << "*\n";
      last = made.suite;
      std::cout << "    " << made.name << "*\n";
    } else if (suite.empty() || suite == made.suite) {
      ++(run_case(made) ? passed : failed);
    }
  }
  if (lists) return 0;
  std::cout << passed << " passed, " << failed << " failed" << std::endl;
  if (!report.empty()) {
    std::ofstream(report) << "<TestSuite test_cases_passed=\"" << passed
                          << "\" test_cases_failed=\"" << failed << "\"/>\n";
  }
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace boost::stand_in
