#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/schedule.md has the rules as rules.hpp says them, and its pictures are those that the library
# draws. To draw them again: PROGRAM docs/pictures
# usage: schedule_page_test.sh PROGRAM SOURCE_DIR
source "$(dirname "$0")/cases.sh"
program=$1
cd "$2" || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$program" "$work"
drawn=$(cd "$work" && ls ./*.svg 2>/dev/null)
declare_cases $((2 + $(grep -c . <<<"$drawn")))

rules=$(awk '/^enum/ { exit }
             /^\/\/\/ R[0-9]+ / { printf "%s- **%s**", n++ ? "\n" : "", $2; sub(/ R[0-9]+ +/, " ") }
             /^\/\/\/ / && n { sub(/^\/\/\/ +/, " "); printf "%s", $0 }' include/zero/schedule/rules.hpp)
page=$(awk '/^- \*\*R/ { printf "%s%s", n++ ? "\n" : "", $0; next }
            /^  / && n { sub(/^ +/, " "); printf "%s", $0; next }
            n { exit }' docs/schedule.md)
if [ -n "$page" ] && diff <(echo "$rules") <(echo "$page"); then pass; else
  fail "the rules of docs/schedule.md differ from those of schedule/rules.hpp (lines >)"
fi
if [ "$(ls docs/pictures)" = "$(ls "$work")" ]; then pass; else
  fail "docs/pictures holds other pictures than the program draws"
fi
for picture in $drawn; do
  name=$(basename "$picture")
  if cmp "$work/$name" "docs/pictures/$name" && grep -qF "(pictures/$name)" docs/schedule.md; then
    pass
  else
    fail "docs/pictures/$name is another picture, or the page does not show it; to draw all again:" \
      "$program docs/pictures"
  fi
done
finish
