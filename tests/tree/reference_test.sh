#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Doxygen makes the reference without a warning: each public name is described. Headers that have
# names without a description so far are listed in cmake/reference_open.txt, and no others.
# usage: reference_test.sh SOURCE_DIR DOXYGEN
source "$(dirname "$0")/cases.sh"
cd "$1" || exit 2
doxygen=$2
list=cmake/reference_open.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
declare_cases 2

printf '@INCLUDE = cmake/Doxyfile\nOUTPUT_DIRECTORY = %s\n' "$work" >"$work/Doxyfile"
"$doxygen" "$work/Doxyfile" 2>&1 | sed "s@$PWD/include/@@" | sort -u >"$work/warnings"
open() { grep -v '^#' $list; }
if [ -f "$work/html/index.html" ] && ! grep -vFf <(open | sed 's/$/:/') "$work/warnings"; then
  pass
else
  fail "doxygen warns (above); a public name needs a line that begins with ///"
fi
# A header that is clean stays so.
clean=
while read -r header; do
  grep -qF "$header:" "$work/warnings" || clean+=" $header"
done < <(open)
if [ -z "$clean" ]; then pass; else fail "these have no warnings; remove them from $list:$clean"; fi
finish
