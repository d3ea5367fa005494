#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# README.md and docs/*.md show files as they are and output as it is. In them, the comment
# `<!-- FILE -->` stands before a block that equals FILE, `<!-- output of PROGRAM -->` before one that
# equals what the example PROGRAM prints. Each comment is a case, and README.md must show the
# quickstart with its output.
# usage: readme_test.sh SOURCE_DIR EXAMPLES_DIR
source "$(dirname "$0")/cases.sh"
cd "$1" || exit 2
examples=$2
quickstart='<!-- examples/01_quickstart.cpp -->'
output='<!-- output of 01_quickstart -->'
pages=(README.md docs/*.md)
markers=$(grep -HxE '<!-- (output of )?[[:alnum:]_./-]+ -->' "${pages[@]}")
declare_cases $((1 + $(grep -c . <<<"$markers")))

if grep -qxF "README.md:$quickstart" <<<"$markers" && grep -qxF "README.md:$output" <<<"$markers"; then
  pass
else
  fail "README.md needs the lines '$quickstart' and '$output', each before its block"
fi

# The first fenced block of PAGE after the line MARKER.
block() {
  awk -v marker="$2" '$0 == marker { found = 1 }
                      /^```/ && found { if (inside) exit; inside = 1; next }
                      inside' "$1"
}
while IFS=: read -r page marker; do
  [ -n "$marker" ] || continue
  name=$(sed -E 's/<!-- (output of )?(.*) -->/\2/' <<<"$marker")
  if [[ $marker == *" output of "* ]]; then
    expected=$("$examples/$name" </dev/null 2>&1) || fail "$name ended with an error"
  else
    expected=$(cat "$name") || fail "$name cannot be read"
  fi
  if [ -n "$expected" ] && diff <(echo "$expected") <(block "$page" "$marker"); then
    pass
  else
    fail "the block of $page after '$marker' differs from what it shows (lines > are the page's)"
  fi
done <<<"$markers"
finish
