#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The pages hang together: what they link to in the tree is there, README.md leads to each of them,
# and the numbers in [] of docs/comparison.md are those of its sources.
# usage: pages_test.sh SOURCE_DIR
source "$(dirname "$0")/cases.sh"
cd "$1" || exit 2
declare_cases 3

lost=
while IFS=: read -r page link; do
  [ -e "$(dirname "$page")/${link%%#*}" ] || lost+=" $page:$link"
done < <(grep -HoE '\]\([^)#: &]+[)#]' README.md docs/*.md | sed -E 's/\]\((.*)[)#]$/\1/')
if [ -z "$lost" ]; then pass; else fail "links lead nowhere:$lost"; fi

lost=
for page in docs/*.md; do grep -qF "($page)" README.md || lost+=" $page"; done
if [ -z "$lost" ]; then pass; else fail "README.md does not link to:$lost"; fi

used=$(sed '/^## Sources/,$d' docs/comparison.md | grep -oE '\[[0-9]+\]' | tr -d '[]' | sort -nu)
listed=$(sed '1,/^## Sources/d' docs/comparison.md | grep -oE '^[0-9]+' | sort -nu)
if [ -n "$used" ] && diff <(echo "$used") <(echo "$listed"); then pass; else
  fail "sources of docs/comparison.md that are used (lines <) and listed (lines >) differ"
fi
finish
