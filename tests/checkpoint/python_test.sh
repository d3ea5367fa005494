#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Python's safetensors reads what zero writes, and zero what it writes. Installs that package, with
# numpy, into an environment in WORK; says so and passes where that is impossible, as offline.
# usage: python_test.sh WORK RESUME ZERO_CHECKPOINT      the programs 04_resume and zero-checkpoint
source "$(dirname "$0")/../tree/cases.sh"
work=$1 resume=$2 tool=$3
declare_cases 3
mkdir -p "$work"
python=$work/environment/bin/python
packages="import numpy, safetensors.numpy"
if ! "$python" -c "$packages" 2>/dev/null; then
  python3 -m venv "$work/environment" &&
    "$python" -m pip install -q --timeout 5 --retries 0 safetensors numpy
fi
if ! "$python" -c "$packages"; then
  echo "Not run, as Python's safetensors cannot be installed here"
  passed=3
  finish
fi

rm -rf "$work/runs" "$work"/*.safetensors
"$resume" "$work/runs" || fail "04_resume ended with an error"
"$tool" merge "$work/runs" "$work/merged.safetensors" || fail "merge ended with an error"

# The pieces of all files, put together as the manifest says, are the merged tensors.
"$python" - "$work" <<'END' && pass || fail "Python reads something else than zero wrote"
import json, os, sys
import numpy as np
from safetensors.numpy import load_file
work = sys.argv[1]
runs = os.path.join(work, "runs")
directory = os.path.join(runs, open(os.path.join(runs, "latest")).read().strip())
manifest = json.load(open(os.path.join(directory, "manifest.json")))["checkpoint"]
merged = load_file(os.path.join(work, "merged.safetensors"))
whole = {t["name"]: np.full(t["shape"], np.nan, np.float32) for t in manifest["tensors"]}
for file in manifest["files"]:
    tensors = load_file(os.path.join(directory, file["name"]))
    assert len(tensors) == len(file["pieces"])
    for piece in file["pieces"]:
        if piece["part"] != 0:
            continue
        tensor = manifest["tensors"][piece["tensor"]]
        name, begin, end = tensor["name"], piece["begin"], piece["begin"] + piece["count"]
        key = name if name in tensors else f"{name}[{begin}:{end}]"
        whole[name].reshape(-1)[begin:end] = tensors[key].reshape(-1)
assert list(merged) and set(merged) == set(whole)
for name, array in whole.items():
    assert array.dtype == merged[name].dtype and array.shape == merged[name].shape
    assert array.tobytes() == merged[name].tobytes(), name
assert manifest["user"] == {"next_batch": "10"} and manifest["step"] == 10
END

"$python" - "$work" <<'END' || fail "Python writes no file"
import sys
import numpy as np
from safetensors.numpy import save_file
save_file({"a": np.zeros((2, 3), np.float32), "\u20ac \"\n": np.ones(5, np.int64),
           "none": np.zeros((0, 4), np.float16), "one": np.array(1.0)},
          sys.argv[1] + "/python.safetensors", {"key": "v\u00e4lue"})
END
listed=$("$tool" list "$work/python.safetensors" | sort | tr -s ' ' | paste -sd '|')
[[ $listed == *"a F32 [2, 3]"* && $listed == *"I64 [5]"* && $listed == *"none F16 [0, 4]"* &&
  $listed == *"one F64 []"* ]] && pass || fail "zero reads something else than Python wrote: $listed"

# One flipped byte is found by the tool, and named.
"$tool" verify "$work/runs" >/dev/null || fail "verify finds fault with a good checkpoint"
file=$(ls "$work"/runs/step-10/rank-2.safetensors)
printf '\377' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") - 1)) conv=notrunc status=none
! error=$("$tool" verify "$work/runs" 2>&1 >/dev/null) && [[ $error == *rank-2*layer.* ]] && pass ||
  fail "a flipped byte is not found: $error"
finish
