// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Sleeping on a word until another thread changes it (Linux). Includes system headers only.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

namespace zero::detail {

// std::atomic::wait has no time limit, and condition variables with one are no friends of the
// thread sanitizer.
static_assert(sizeof(std::atomic<std::uint32_t>) == 4 &&
              std::atomic<std::uint32_t>::is_always_lock_free);

/// Sleeps while `word` holds `expected`, until somebody wakes it, for at most `limit`. May return
/// early for no reason: the caller checks again.
inline void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                       std::chrono::nanoseconds limit) {
  timespec time{};
  time.tv_sec = static_cast<std::time_t>(limit.count() / 1'000'000'000);
  time.tv_nsec = static_cast<long>(limit.count() % 1'000'000'000);
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, &time, nullptr, 0);
}

/// Wakes all that sleep on `word`.
inline void futex_wake(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

/// Tells the processor that this is a loop that waits.
inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace zero::detail
