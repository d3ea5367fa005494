#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Passes on those headers of the library that reach no third-party header which is not here, and says
# what it leaves out.
# usage: present.sh INCLUDE_DIR "COMPILER OPTION..." <HEADERS
include=$1
compile=$2
headers=$(cat)
# Those that include a header, directly or through others.
reaching() {
  (cd "$include" && grep -rE '^ *# *include <' zero) | awk -F: -v wanted="$1" '
    { gsub(/.*<|>.*/, "", $2); includers[$2] = includers[$2] " " $1 }
    function visit(name,  i, n, names) {
      n = split(includers[name], names, " ")
      for (i = 1; i <= n; ++i)
        if (!(names[i] in seen)) { seen[names[i]]; print names[i]; visit(names[i]) }
    }
    END { visit(wanted) }'
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for third_party in nccl.h {cuda_runtime,cuda_runtime_api,nvtx3/nvToolsExt}.h mpi.h xxhash.h; do
  echo "#include <$third_party>" >"$work/probe.cpp"
  $compile -E "$work/probe.cpp" -o /dev/null 2>/dev/null && continue
  reaching $third_party >"$work/reaching"
  left_out=$(grep -Fxf "$work/reaching" <<<"$headers") || continue
  echo "Not compiled, as $third_party is not here: $(paste -sd' ' <<<"$left_out")" >&2
  headers=$(grep -vFxf "$work/reaching" <<<"$headers")
done
echo "$headers"
