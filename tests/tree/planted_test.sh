#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The checks of this folder can fail: each finds a fault that is planted in a small tree.
# usage: planted_test.sh COMPILER
source "$(dirname "$0")/cases.sh"
checks=$(cd "$(dirname "$0")" && pwd)
compiler=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{include/zero,examples,bin}
cd "$work" || exit 2
declare_cases 22

# finds SENTENCE CHECK ARGUMENT...: the check fails and says the sentence.
finds() {
  local sentence=$1 check=$2 output
  shift 2
  if output=$(bash "$checks/$check" "$@" 2>&1) || [[ $output != *"$sentence"* ]]; then
    fail "$check does not say: $sentence"
    echo "$output"
  else
    pass
  fi
}
# accepts CHECK ARGUMENT...: the check passes, so that it is the planted fault that it finds.
accepts() {
  local check=$1 output
  shift
  if output=$(bash "$checks/$check" "$@" 2>&1); then
    pass
  else
    fail "$check"
    echo "$output"
  fi
}

# A stand-in for a test program of two cases: it reports $1 as passed and ends with $2.
program() {
  cat >bin/program <<END
#!/usr/bin/env bash
[ "\$1" = --list_content ] && { printf 'suite*\n    one*\n    two*\n' >&2; exit; }
echo '<TestSuite test_cases_passed="$1" test_cases_passed_with_warnings="0">' >"\${!##*=}"
exit $2
END
  chmod +x bin/program
}
program 2 0
accepts run_cases.sh bin/program suite
program 1 0
finds "zero-cases: passed 1" run_cases.sh bin/program suite
program 2 66
finds "ended with status 66" run_cases.sh bin/program suite
finds "was not built" run_cases.sh bin/absent suite
finds "no suite called other" run_cases.sh bin/program other
finds "FAILED" run_program.sh false

header() { printf '%s\n' "// SPDX-License-Identifier: Apache-2.0" "// Copyright The zero authors" \
  "// Planted." "#pragma once" "$1" >include/zero/planted.hpp; }
header 'inline int good() { return 0; }'
accepts headers.sh include "$compiler" -fsyntax-only
accepts one_definition_test.sh include "$compiler"
header 'int twice() { return 0; }'
finds "do not link" one_definition_test.sh include "$compiler"
header 'struct S { S() {} }; inline S planted;'
finds "static initialiser" one_definition_test.sh include "$compiler"
header 'std::size_t alone();'
finds "FAILED: zero/planted.hpp" headers.sh include "$compiler" -fsyntax-only

printf 'see /%s/me\n' home >note
finds "a path of one machine" text_test.sh .

wrong() {
  printf '#if WRONG == 1  // expect: %s\nstatic_assert(%s, "small");\n#endif\n' "$@" >wrong.cpp
}
wrong small "sizeof(int) == 1"
accepts compile_fail.sh wrong.cpp "$compiler"
wrong large "sizeof(int) == 1"
finds "does not say: large" compile_fail.sh wrong.cpp "$compiler"
wrong small "sizeof(int) > 1"
finds "mistake 1 compiles" compile_fail.sh wrong.cpp "$compiler"

echo 'int main() {}' >examples/01_quickstart.cpp
printf '#!/bin/sh\necho hello\n' >bin/01_quickstart
chmod +x bin/01_quickstart
printf '%s\n' '<!-- examples/01_quickstart.cpp -->' '```cpp' 'int main() {}' '```' \
  '<!-- output of 01_quickstart -->' '```text' 'goodbye' '```' >README.md
finds "zero-cases: passed 2" readme_test.sh . bin

mkdir docs
header 'inline void bad() { throw Error("zero: " + name + " is a planted mistake"); }'
printf '| message | cause |\n| `zero: … is a planted` | it was planted |\n' >docs/errors.md
accepts errors_test.sh .
header 'inline void bad() { throw Error("zero: " + name + " is another mistake"); }'
finds "unlisted: include/zero/planted.hpp" errors_test.sh .
header 'inline void good() {}'
finds "nobody says: zero: … is a planted" errors_test.sh .

printf '| promise | held by |\n| none | `base/absent_test/nothing_is_held` |\n' >docs/numbers.md
finds "no such test: base/absent_test/nothing_is_held" numbers_test.sh .

echo 'A source [1] and a [page](absent.md).' >docs/comparison.md
finds "docs/comparison.md:absent.md" pages_test.sh .
finds "README.md does not link to: docs/comparison.md" pages_test.sh .
finish
