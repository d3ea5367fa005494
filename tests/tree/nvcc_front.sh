#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# nvcc's front end, as a compiler that checks one file of host code: what nvcc would run first, less
# most headers of CUDA, which take longer to read than such a file.
# usage: nvcc_front.sh NVCC OPTION... FILE
nvcc=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
options=(-D__CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS__)
for option; do [ "$option" = -fsyntax-only ] || options+=("$option"); done
commands=$("$nvcc" -x cu -fatbin --dryrun --keep --keep-dir "$work" -o "$work/object" \
  "${options[@]}" 2>&1 | sed -nE 's/^#\$ ([A-Z_]+=[^ ]*|.*\.cpp1\.ii.*)$/\1/p' |
  sed "s:cuda_runtime.h:crt/host_defines.h:")
[ "$(grep -c 'cpp1\.ii' <<<"$commands")" -eq 2 ] || {
  echo "nvcc_front.sh: nvcc --dryrun names no front end"
  exit 2
}
(eval "set -e"$'\n'"$commands") 2>&1
exit
