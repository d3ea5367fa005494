# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts: the Debian packages they need, and long commands with their progress.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
logs=build/logs
mkdir -p $logs
export NINJA_STATUS="[%f/%t] "

# Installs those of the named Debian packages that are absent.
need_packages() {
  local missing=() package as_root=()
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "Not on Debian: what these packages hold is taken to be installed: $*"
    return
  fi
  for package; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "Packages are missing and neither root nor sudo is here to install them. As root, run:"
      echo "  apt-get update && apt-get install --no-install-recommends ${missing[*]}"
      exit 1
    fi
    as_root=(sudo)
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  if ! part packages-lists "reading the lists of packages" "${as_root[@]}" update ||
    ! part packages "installing ${missing[*]}" \
      "${as_root[@]}" install -y --no-install-recommends "${missing[@]}"; then
    tail -n 15 $logs/packages*.log
    echo "These packages could not be installed: ${missing[*]}"
    exit 1
  fi
}

# part NAME TITLE COMMAND...: runs the command, its output in build/logs/NAME.log; says what begins,
# every 20 seconds how far it is, and how long it took.
part() {
  local log=$logs/$1.log title=$2 begin=$SECONDS ticker status
  shift 2
  echo "-- $title"
  while sleep 20 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    echo "   $((SECONDS - begin)) s: $(tail -n 1 "$log" | cut -c1-90)"
  done &
  ticker=$!
  "$@" >"$log" 2>&1 </dev/null
  status=$?
  kill $ticker
  wait $ticker 2>/dev/null
  [ $status -eq 0 ] && echo "   done in $((SECONDS - begin)) s" ||
    echo "   failed after $((SECONDS - begin)) s: $log"
  return $status
}

# build PRESET: configures and builds; shows the first errors if it fails.
build() {
  if ! part "$1-configure" "[$1] configuring" cmake --preset "$1"; then
    tail -n 30 "$logs/$1-configure.log"
    return 1
  fi
  grep -E '^-- Not (built|run)' "$logs/$1-configure.log"
  if ! part "$1-build" "[$1] building" cmake --build --preset "$1" -j "$(nproc)" -- -k 0; then
    grep '^FAILED: ' "$logs/$1-build.log"
    grep -E -A 4 ' error: |undefined reference|multiple definition' "$logs/$1-build.log" |
      cut -c1-300 | head -n 60
    return 1
  fi
}
