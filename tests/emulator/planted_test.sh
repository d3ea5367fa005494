#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each planted mistake is found, and nothing is found where it is mended.
# usage: planted_test.sh PROGRAM plain|thread|address
source "$(dirname "$0")/../tree/cases.sh"
program=$1
build=$2

# Found in every build: by the emulator itself.
always="
destroyed_twice|a stream was used that was destroyed
used_after_it_was_freed|belong to an allocation of 16384 bytes at 0x[0-9a-f]+ that was freed
host_reads_device_memory|SEGV|BUS|status 1(35|39)
kernel_stores_past_the_end|fill.*block .1, 0, 0., thread .104, 0, 0.*st\.global
kernel_uses_freed_memory|fill.*block .0, 0, 0., thread .0, 0, 0.*st\.global
"
# Found by the thread sanitizer alone.
race='WARNING: ThreadSanitizer: data race'
thread="
forgotten_wait|$race
wait_for_an_old_record|$race
forgotten_wait_for_a_collective|$race
forgotten_wait_in_a_graph|$race
freed_while_another_stream_reads|$race|that was freed
host_reads_before_it_waits|$race
host_reuses_a_buffer_that_is_being_copied|$race
kernels_race|$race
"
canary="work_writes_past_the_end|bytes around an allocation of 16284 bytes .* were overwritten"
case $build in
  thread) cases=$always$canary$thread ;;
  address) cases=${always}"work_writes_past_the_end|use-after-poison" ;;
  *) cases=$always$canary ;;
esac
cases=$(grep . <<<"$cases")
# What is mended must pass in every build.
all=$("$program")
# At its end the thread sanitizer would wait for reports of other threads, a second each.
export TSAN_OPTIONS=$TSAN_OPTIONS:atexit_sleep_ms=0
declare_cases $(($(wc -l <<<"$cases") + $(wc -l <<<"$all")))

# Without an address space that is spread less widely g++ 12's thread sanitizer may not start.
run() { setarch -R "$program" "$@" </dev/null 2>&1; }
setarch -R true 2>/dev/null || run() { "$program" "$@" </dev/null 2>&1; }

while IFS='|' read -r mistake expected; do
  output=$(run "$mistake")
  status=$?
  output+=", ended with status $status"
  if [ $status -eq 0 ]; then
    fail "$mistake was not found"
  elif grep -qE "$expected" <<<"$output"; then
    pass
  else
    echo "$output"
    fail "$mistake: the program failed, but said nothing like: $expected"
  fi
done <<<"$cases"
for mistake in $all; do
  if output=$(run "$mistake" mended); then
    pass
  else
    echo "$output"
    fail "$mistake was found though it is mended"
  fi
done
finish
