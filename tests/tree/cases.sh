# SPDX-License-Identifier: Apache-2.0
# Sourced by every test command: the two lines by which scripts/test.sh counts cases.
declared=0
passed=0

# Says how many cases there are, before the first of them runs: a crash then counts as failures.
declare_cases() {
  declared=$1
  echo "zero-cases: declared $declared"
}

pass() { passed=$((passed + 1)); }

fail() { echo "FAILED: $*"; }

# Ends a test command; it succeeds if every case that was declared has run and passed.
finish() {
  echo "zero-cases: passed $passed"
  [ "$declared" -gt 0 ] && [ "$passed" -eq "$declared" ]
  exit
}
