#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Reads the includes of all headers: they go down only, without a cycle, and the folders that the
# compiler evaluates include cheap headers of the standard library only.
# usage: include_rule.sh INCLUDE_DIR      prints each violation; fails if there is one
cd "$1" || exit 2

# The house: which other folders a folder may include. Left and right meet in module/ only.
declare -A below=(
  [base]=""
  [layout]="base"
  [device]="base"
  [comm]="base device"
  [optim]="base layout"
  [schedule]="base"
  [policy]="base schedule"
  [plan]="base schedule policy"
  [checkpoint]="base layout device comm optim"
  [module]="base layout device comm optim schedule policy plan checkpoint"
)
# Each costs g++ 12 at most 0.2 s alone; most share what they include.
cheap=" algorithm array bit cmath compare concepts cstddef cstdint cstring exception
  initializer_list iosfwd iterator limits new numeric optional span stdexcept string string_view
  tuple type_traits utility variant vector "
cheap_folders=" base layout schedule policy "

violation() {
  echo "$1: $2"
  bad=1
}

bad=0
edges=""
while IFS=: read -r header include; do
  folder=${header#zero/} folder=${folder%%/*}
  [ "$header" = "zero/$folder" ] && folder="" # an umbrella: it may include everything
  name=${include#*[<\"]} name=${name%[>\"]*}
  if [ -n "$folder" ] && [ -z "${below[$folder]+known}" ]; then
    violation "$header" "the folder $folder has no place in the include rule"
  elif [[ $include == *\"* ]]; then
    violation "$header" "include <zero/folder/header.hpp>, not \"$name\""
  elif [[ $name == zero/* ]]; then
    edges+="$header $name"$'\n'
    target=${name#zero/} target=${target%%/*}
    [ "$name" = "zero/$target" ] && target="an umbrella"
    if [ ! -f "$name" ]; then
      violation "$header" "<$name> does not exist"
    elif [ -n "$folder" ] && [ "$target" != "$folder" ] &&
      [[ " ${below[$folder]} " != *" $target "* ]]; then
      violation "$header" "<$name>: $folder/ may include only: $folder ${below[$folder]}"
    fi
  elif [[ $cheap_folders == *" ${folder:-none} "* && ! $cheap =~ [[:space:]]$name[[:space:]] ]]; then
    violation "$header" "<$name>: $folder/ includes cheap standard headers only"
  fi
done < <(grep -rHE '^[[:space:]]*#[[:space:]]*include' zero --include='*.hpp' --include='*.cuh' | sort)

if ! loop=$(tsort <<<"$edges" 2>&1 >/dev/null); then
  violation "a cycle" "$(grep -v 'contains a loop' <<<"$loop" | sed 's/^tsort: //' | paste -sd' ')"
fi
exit $bad
