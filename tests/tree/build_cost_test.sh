#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What users compile does not grow unnoticed. Of clang, the numbers of classes and functions that are
# instantiated; of the compiler of this build, the lines that zero.hpp has with all that it includes.
# They are exact, and at most 3 % above those recorded in build_cost.txt.
# To record new ones, after a look at what grew: build_cost_test.sh SOURCE_DIR COMPILER CLANG --record
# usage: build_cost_test.sh SOURCE_DIR COMPILER CLANG [--record]      CLANG "" if it is not here
source "$(dirname "$0")/cases.sh"
cd "$1" || exit 2
compiler=$2 clang=$3 record=${4:-}
again="tests/tree/build_cost_test.sh . $compiler '$clang' --record"
baselines=tests/tree/build_cost.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

printf '%s\n' '#include <zero/policy/proof.hpp>' 'static_assert(zero::proven<zero::Zero3>);' \
  >"$work/proof.cpp"
echo '#include <zero/zero.hpp>' >"$work/zero.cpp"

# instantiated FILE EVENT: how many, with neither optimiser nor back end.
instantiated() {
  local base=$work/$(basename "$1" .cpp)
  [ -f "$base.json" ] ||
    "$clang" -std=c++20 -Iinclude -S -emit-llvm -Xclang -disable-llvm-passes -ftime-trace \
      -ftime-trace-granularity=0 "$1" -o "$base.ll" || return
  grep -o "\"name\":\"$2\"" "$base.json" | wc -l
}
version() { "$1" --version | sed "s/^[^ ]* //; q"; }  # less the name it was called by
measure() { # NAME
  case $1 in
    proof_classes) instantiated "$work/proof.cpp" InstantiateClass ;;
    proof_functions) instantiated "$work/proof.cpp" InstantiateFunction ;;
    quickstart_classes) instantiated examples/01_quickstart.cpp InstantiateClass ;;
    quickstart_functions) instantiated examples/01_quickstart.cpp InstantiateFunction ;;
    include_lines) "$compiler" -std=c++20 -Iinclude -E -P "$work/zero.cpp" | wc -l ;;
  esac
}

names=(proof_classes proof_functions quickstart_classes quickstart_functions include_lines)
if [ "$record" = --record ]; then
  {
    echo "# Recorded by build_cost_test.sh, which says what each is."
    echo "clang $(version "$clang")"
    echo "compiler $(version "$compiler")"
    for name in "${names[@]}"; do echo "$name $(measure "$name")"; done
  } >"$work/new" && mv "$work/new" $baselines && cat $baselines
  exit
fi
declare_cases ${#names[@]}
recorded() { sed -n "s/^$1 //p" $baselines; }
for name in "${names[@]}"; do
  with=clang && by=$clang
  [ "$name" != include_lines ] || { with=compiler && by=$compiler; }
  if [ -z "$by" ] || [ "$(version "$by")" != "$(recorded $with)" ]; then
    echo "Not compared, as it was recorded with another compiler, $(recorded $with): $name"
    pass
    continue
  fi
  limit=$((103 * $(recorded "$name") / 100))
  measured=$(measure "$name")
  if [ "${measured:-0}" -gt 0 ] && [ "$measured" -le $limit ]; then
    pass
  else
    fail "$name is ${measured:-unknown}, recorded is $(recorded "$name"), at most $limit are allowed." \
      "Look at what grew; if that is worth it: $again"
  fi
done
finish
