#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# zero-checkpoint refuses what it cannot do with one sentence: exit status 2 for words that it does not
# know, 1 for files.
# usage: command_line_test.sh ZERO_CHECKPOINT
source "$(dirname "$0")/../tree/cases.sh"
tool=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
declare_cases 11
# refuses STATUS PATTERN ARGUMENT...: exits with STATUS, prints nothing, and one line as its error.
refuses() {
  local expected=$1 pattern=$2 status=0
  shift 2
  "$tool" "$@" >"$work/out" 2>"$work/err" || status=$?
  if [ $status = "$expected" ] && [ ! -s "$work/out" ] && [ "$(wc -l <"$work/err")" = 1 ] &&
    grep -qE -- "^zero-checkpoint: .*$pattern" "$work/err"; then
    pass
  else
    fail "$*: exit status $status"
    cat "$work/out" "$work/err"
  fi
}
refuses 2 "'mrege' is none of list" mrege a b
refuses 2 'list needs a path' list
refuses 2 'merge needs two paths' merge a
refuses 2 "'b' is no option of verify" verify a b
refuses 2 "'--relaxed' is no option of merge" merge a b --relaxed
refuses 2 "bf16, fp16 or fp64, not 'int8'" import a b --type int8
refuses 2 '--type needs a value' merge a b --type
refuses 2 "whole number from 1, not '0'" merge a b --file-bytes 0
refuses 1 'No such file.*check the path' list "$work/none"
echo "step-7" >"$work/latest"
refuses 1 'step-7/manifest.json.*check the path' verify "$work"
if "$tool" --help >"$work/out" && grep -q '^usage' "$work/out"; then pass; else fail "--help"; fi
finish
