#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What every file of the tree must hold as text.
# usage: text_test.sh SOURCE_DIR
source "$(dirname "$0")/cases.sh"
cd "$1" || exit 2
declare_cases 4

# none TITLE COMMAND...: the command prints the lines that break the rule; there must be none.
none() {
  local title=$1 lines
  shift
  lines=$("$@")
  if [ -z "$lines" ]; then
    pass
  else
    fail "$title"
    echo "$lines"
  fi
}
tree() { grep -rnIE --exclude-dir=.git --exclude-dir=build --exclude=LICENSE -e "$1" .; }
headers() { find include -name '*.hpp' -o -name '*.cuh'; }
without_beginning() {
  local file
  for file in $(headers); do
    [ "$(head -n 2 "$file")" = "// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors" ] && sed -n 3p "$file" | grep -q '^// ' &&
      grep -qx '#pragma once' "$file" || echo "$file"
  done
}
too_long() {
  local file
  for file in $(headers); do
    [ "$(wc -l <"$file")" -le 300 ] || wc -l "$file"
  done
}

none "a line names a path of one machine" \
  tree '(^|[^[:alnum:]._~}-])/(home|root|work|mnt|tmp|srv|Users)/'
none "a line names a package registry" \
  tree '[.]debian[.]org|pypi[.]org|npmjs[.]|crates[.]io'
none "a header does not begin with the licence, a line that says what it holds, #pragma once" \
  without_beginning
none "a header is longer than 300 lines" too_long
finish
