#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The include rule holds, and the rule finds each kind of violation when it is planted.
# usage: include_rule_test.sh INCLUDE_DIR
source "$(dirname "$0")/cases.sh"
include=$1
rule="$(cd "$(dirname "$0")" && pwd)/include_rule.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
declare_cases 7

if bash "$rule" "$include"; then pass; else fail "the include rule"; fi

# planted TITLE SENTENCE HEADER INCLUDE [HEADER INCLUDE]: in a copy of a small tree, the rule must
# name the header and say the sentence.
planted() {
  local title=$1 sentence=$2 header=$3 output
  shift 2
  rm -rf "$work/zero"
  mkdir -p "$work"/zero/{base,layout,device,module,misc}
  echo '#include <cstddef>' | tee "$work"/zero/{base,layout,device,module}/good.hpp >/dev/null
  while [ $# -gt 0 ]; do
    echo "#include $2" >>"$work/zero/$1"
    shift 2
  done
  if output=$(bash "$rule" "$work") || [[ $output != *"$header"*"$sentence"* ]]; then
    fail "$title is not found: $output"
  else
    pass
  fi
}
planted "an upward include" "may include only" \
  layout/planted.hpp '<zero/module/good.hpp>'
planted "a sideways include" "may include only" \
  layout/planted.hpp '<zero/device/good.hpp>'
planted "an expensive header" "cheap" \
  base/planted.hpp '<iostream>'
planted "an unknown folder" "no place" \
  misc/planted.hpp '<cstddef>'
planted "a quoted include" "not" \
  base/planted.hpp '"good.hpp"'
planted "a cycle" "base/second.hpp" \
  base/first.hpp '<zero/base/second.hpp>' base/second.hpp '<zero/base/first.hpp>'
finish
