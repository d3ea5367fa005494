#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/gpu-check.sh without a GPU: what it refuses, and two suites on the emulator. And that its
# stand-in for Boost.Test fails what must fail.
# usage: gpu_check_test.sh PROJECT EMULATOR_LIBRARY NVCC CXX
project=$1
emulator=$2
export NVCC=$3 CXX=$4
source "$project/tests/tree/cases.sh"
declare_cases 5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Its build folder is the project's: another one must not be in use.
cp -r "$project/scripts" "$project/include" "$project/tests" "$project/benchmarks" "$work"
check="$work/scripts/gpu-check.sh"

# refuses TITLE TEXT COMMAND...: status 2, one line with the text, nothing built.
refuses() {
  local title=$1 text=$2 output status
  shift 2
  output=$("$@" 2>&1)
  status=$?
  if [ $status -eq 2 ] && [[ $output == *"$text"* ]] && [ "$(wc -l <<<"$output")" -eq 1 ] &&
    ! compgen -G "$work/build/gpu-check/*.o" >/dev/null; then
    pass
  else
    echo "$output"
    fail "$title: status $status"
  fi
}
mkdir "$work/bin"
printf '#!/bin/sh\nexit 9\n' >"$work/bin/nvidia-smi"
chmod +x "$work/bin/nvidia-smi"
refuses "no GPU" "there is no GPU here" env PATH="$work/bin:$PATH" bash "$check"
printf '#!/bin/sh\necho "A device, 9.0, 81920, 580.1"\n' >"$work/bin/nvidia-smi"
refuses "no nvcc" "nvcc is not here" env PATH="$work/bin:$PATH" NVCC=/nowhere/nvcc bash "$check"
refuses "an unknown suite" "no suite of tests/cuda" bash "$check" --only x_test

if output=$(bash "$check" --emulator "$emulator" --only "device_test norm_test" 2>&1) &&
  grep -Eqx '[1-9][0-9]* passed, 0 failed' <<<"$(tail -n 1 <<<"$output")"; then
  pass
else
  echo "$output"
  fail "device_test and norm_test on the emulator"
fi

cat >"$work/stand_in.cpp" <<'END'
#define BOOST_TEST_MODULE stand_in
#include <boost/test/unit_test.hpp>
#include <stdexcept>
BOOST_AUTO_TEST_SUITE(stand_in_test)
using boost::test_tools::tolerance;
void throws() { throw std::runtime_error("x"); }
bool passed_by = false;
BOOST_AUTO_TEST_CASE(passes) {
  BOOST_TEST(1 + 1 == 2);
  BOOST_TEST(1.0 == 1.001, tolerance(0.01));
  BOOST_CHECK_THROW(throws(), std::runtime_error);
}
BOOST_AUTO_TEST_CASE(false_comparison) { BOOST_TEST(std::string("a") == "b", "why"); }
BOOST_AUTO_TEST_CASE(false_value) {
  BOOST_TEST_CONTEXT("in " << 3) { BOOST_TEST(!std::string("a").empty() == false); }
}
BOOST_AUTO_TEST_CASE(beyond_the_tolerance) { BOOST_TEST(1.0 == 1.1, tolerance(0.01)); }
BOOST_AUTO_TEST_CASE(not_a_number) { BOOST_TEST(0.0 / 0.0 * 1 == 1.0, tolerance(0.01)); }
BOOST_AUTO_TEST_CASE(no_error) { BOOST_CHECK_THROW(0, std::runtime_error); }
BOOST_AUTO_TEST_CASE(another_error) { BOOST_CHECK_THROW(throws(), std::logic_error); }
BOOST_AUTO_TEST_CASE(wrong_error) {
  BOOST_CHECK_EXCEPTION(throws(), std::runtime_error, [](const auto&) { return false; });
}
BOOST_AUTO_TEST_CASE(required) {
  BOOST_TEST_REQUIRE(false);
  passed_by = true;
}
BOOST_AUTO_TEST_CASE(ends_a_case) { BOOST_TEST(!passed_by); }
using Types = std::tuple<int, char>;
BOOST_AUTO_TEST_CASE_TEMPLATE(of_types, T, Types) { BOOST_TEST(sizeof(T) == 1U); }
BOOST_AUTO_TEST_SUITE_END()
END
"$CXX" -std=c++20 -Wall -Wextra -Werror -isystem "$project/tests/boost_stand_in" \
  "$work/stand_in.cpp" -o "$work/stand_in"
result=$("$work/stand_in" 2>&1)
status=$?
counted=$(bash "$project/tests/tree/run_cases.sh" "$work/stand_in" stand_in_test | grep zero-cases)
if [ $status -eq 1 ] && [ "$(tail -n 1 <<<"$result")" = "3 passed, 9 failed" ] &&
  [ "$counted" = $'zero-cases: declared 12\nzero-cases: passed 3' ]; then
  pass
else
  echo "$result"
  echo "$counted"
  fail "the stand-in for Boost.Test: status $status"
fi
finish
