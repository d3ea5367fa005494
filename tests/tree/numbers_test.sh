#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each promise of docs/numbers.md, a row of a table, names tests that exist, as `folder/suite/case`.
# usage: numbers_test.sh SOURCE_DIR
source "$(dirname "$0")/cases.sh"
cd "$1" || exit 2
rows=$(awk '/^\|/ && !/^\| (promise|---)/' docs/numbers.md)
declare_cases "$(grep -c . <<<"$rows")"
while read -r row; do
  missing=
  names=$(grep -oE '`[a-z0-9_]+/[a-z0-9_]+/[a-z0-9_]+`' <<<"$row" | tr -d '`')
  for name in ${names:-none/none/none}; do
    grep -qsE "_TEST_CASE(_TEMPLATE)?\($(basename "$name")[),]" \
      tests/"$(dirname "$name")".{cpp,cu} || missing+=" $name"
  done
  if [ -z "$missing" ]; then pass; else fail "no such test:$missing in: $row"; fi
done <<<"$rows"
finish
