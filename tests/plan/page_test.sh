#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The page of zero-plan in a browser without a window: page_test.js moves its sliders everywhere.
# usage: page_test.sh ZERO_PLAN BROWSER
source "$(dirname "$0")/../tree/cases.sh"
plan=$1 browser=$2 here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
declare_cases 4
export HOME=$work XDG_CONFIG_HOME=$work XDG_CACHE_HOME=$work
# browse ARGUMENT...: as root there is no sandbox; whatever it waits for, it ends.
browse() {
  timeout -k 5 90 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
    --no-first-run --user-data-dir="$work/profile" --window-size=1280,1400 "$@" 2>"$work/err"
}

question=(--model llama3-8b)
"$plan" "${question[@]}" --devices 16 --batch 64 --format html >"$work/page.html"
axis() { grep -o "\"$1\":\[[0-9,]*\]" "$work/page.html" | head -n 1 | grep -o '[0-9,]*[0-9]'; }
devices=$(axis devices) batches=$(axis batches)
{
  echo '<script id="expected" type="application/json">'
  echo "{\"devices\": [$devices], \"batches\": [$batches], \"stages\": [\"ddp\", \"zero1\", \"zero2\",
    \"zero3\", \"zero3-depth0\", \"zero3-depth2\", \"hybrid\", \"hpz\"], \"answers\": ["
  separator=
  for device in ${devices//,/ }; do
    for batch in ${batches//,/ }; do
      echo "$separator"
      "$plan" "${question[@]}" --devices "$device" --batch $((device * batch)) --format json
      separator=,
    done
  done
  echo ']}</script><script>'
  cat "$here/page_test.js"
  echo '</script>'
} >"$work/more.html"
cat "$work/page.html" "$work/more.html" >"$work/tested.html"

# says TITLE MINIMUM PAGE ARGUMENT...: the title that the page has in the end; it compared so many
# figures, and of them so many were wrong.
says() {
  local title=$1 minimum=$2 page=$3 seen figures
  shift 3
  seen=$(browse --dump-dom "$@" "file://$work/$page" | grep -o '<title>zero-page: [^<]*')
  echo "${seen#<title>}"
  figures=$(grep -o '[0-9]* figures' <<<"$seen" | cut -d' ' -f1)
  [[ $seen == *$title* ]] && [ "${figures:-0}" -gt "$minimum" ] && pass ||
    fail "should be '$title': $(tail -n 3 "$work/err")"
}
# In light and in dark all figures are those of the program, and nothing overlaps.
says 'light, * 0 wrong' 30000 tested.html
says 'dark, * 0 wrong' 800 'tested.html#few' --blink-settings=preferredColorScheme=0
# A figure that is not the program's is found.
sed 's/"device_bytes": /"device_bytes": 1/' "$work/page.html" | cat - "$work/more.html" \
  >"$work/changed.html"
says 'light, * [1-9]* wrong' 800 'changed.html#few'

# Printed it is one page.
browse --print-to-pdf="$work/page.pdf" "file://$work/page.html"
pages=$(grep -a -c '/Type */Page\b' "$work/page.pdf")
[ "$pages" = 1 ] && pass || fail "printed: $pages pages"
finish
