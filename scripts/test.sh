#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs all tests: the suites of threads under the thread sanitizer, all suites under the
# address and undefined-behaviour sanitizers, and the rest (programs, proofs, code that must be
# vectorised, the tree) optimised. Installs the Debian packages that are missing.
# usage: scripts/test.sh [PRESET...]        presets: release tsan asan (the default), debug
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_packages g++ cmake ninja-build libboost-test-dev libopenblas-dev libbenchmark-dev \
  libxxhash-dev libopenmpi-dev openmpi-bin doxygen chromium-headless-shell
[ $# -gt 0 ] || set -- release tsan asan

# The shadow memory of g++ 12's thread sanitizer needs addresses that are not spread too widely.
in_place=()
setarch -R true 2>/dev/null && in_place=(setarch -R)

# Reads ctest's log: shows what each failed test printed; the last line holds the numbers of cases
# that passed, that were declared, and of tests.
read_results() {
  awk '
    function end_test(  i) {
      if (!tests) return
      if (declared < 1) declared = 1
      all_declared += declared
      all_passed += passed
      if (passed == declared) return
      print "== " name ": " passed " of " declared " cases passed"
      for (i = 0; i < lines; ++i)
        if (i < 40 || i >= lines - 20) print text[i]
        else if (i == 40) print "   ... (" lines - 60 " lines more in the log)"
    }
    function is_entry(line) { return line ~ /: Entering test case "/ }
    /^[0-9]+\/[0-9]+ Testing: / {
      end_test()
      ++tests
      split($1, position, "/")
      name = $3
      declared = passed = lines = shown = 0
    }
    /^Output:$/ { shown = 1; next }
    /^<end of output>$/ { shown = 0 }
    /^zero-cases: declared [0-9]+$/ { declared = $3; next }
    /^zero-cases: passed [0-9]+$/ { passed = $3; next }
    /^zero-counted: / { counted = counted "   " substr($0, 15) "\n"; next }
    /^Command: |^Test time = / { text[lines++] = $0 }
    !shown || /^-+$/ || /: Leaving test case "| did not check any assertions$/ { next }
    / is skipped because disabled$/ { next }
    # Of the cases that a program entered, those that printed something and the last one.
    is_entry($0) && lines && is_entry(text[lines - 1]) { --lines }
    { text[lines++] = substr($0, 1, 300) }
    END {
      end_test()
      printf "%s", counted
      # A test that ctest never began counts too.
      print all_passed + 0, all_declared + position[2] - tests, tests + 0
    }' "$1"
}

total_passed=0
total_failed=0
for preset; do
  # A build that fails is a failure of its own; what was built is tested all the same.
  build "$preset" || total_failed=$((total_failed + 1))
  [ -f "build/$preset/build.ninja" ] || continue
  results=build/$preset/Testing/Temporary/LastTest.log
  rm -f "$results"
  part "$preset-tests" "[$preset] running the tests" "${in_place[@]}" ctest --preset "$preset"
  [ -f "$results" ] || { tail -n 5 "$logs/$preset-tests.log" && continue; }
  summary=$(read_results "$results")
  head -n -1 <<<"$summary"
  read -r passed declared programs <<<"$(tail -n 1 <<<"$summary")"
  echo "[$preset] $declared cases declared, $passed passed, in $programs programs"
  total_passed=$((total_passed + passed))
  total_failed=$((total_failed + declared - passed))
done
echo "$SECONDS s in all"
echo "$total_passed passed, $total_failed failed"
[ $total_failed -eq 0 ] && [ $total_passed -gt 0 ]
