#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every C++ file is formatted by the checked-in .clang-format.
# usage: format_test.sh SOURCE_DIR CLANG_FORMAT
source "$(dirname "$0")/cases.sh"
cd "$1" || exit 2
declare_cases 1
folders=$(ls -d include tests examples tools benchmarks 2>/dev/null)
files=$(find $folders -name '*.hpp' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu')
if output=$("$2" --dry-run --Werror $files 2>&1); then
  pass
else
  grep -oE '^[^:]+:[0-9]+' <<<"$output" | cut -d: -f1 | sort | uniq -c
  fail "not formatted; run: clang-format -i on the files above"
fi
finish
