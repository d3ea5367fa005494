// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Keeps the emulator's own locks out of the thread sanitizer's sight, and makes CUDA's edges by
// hand.
#pragma once

#if defined(__SANITIZE_THREAD__)
extern "C" {
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace emulator {

#if defined(__SANITIZE_THREAD__)
inline void ignore_synchronisation(bool yes) {
  yes ? AnnotateIgnoreSyncBegin("", 0) : AnnotateIgnoreSyncEnd("", 0);
}
inline void ignore_everything(bool yes) {
  ignore_synchronisation(yes);
  yes ? AnnotateIgnoreReadsBegin("", 0) : AnnotateIgnoreReadsEnd("", 0);
  yes ? AnnotateIgnoreWritesBegin("", 0) : AnnotateIgnoreWritesEnd("", 0);
}
/// In how many Hidden scopes this thread is.
inline thread_local unsigned hidden_depth = 0;

/// While it lives, what this thread locks, reads and writes is no matter of the thread sanitizer.
/// Every entry point has one, and the threads of the streams but while they run a piece of work.
class Hidden {
 public:
  Hidden() {
    if (hidden_depth++ == 0) ignore_everything(true);
  }
  ~Hidden() {
    if (--hidden_depth == 0) ignore_everything(false);
  }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;
};

/// The contrary, within Hidden scopes: around work whose accesses must be seen.
class Visible {
 public:
  Visible() : depth_(hidden_depth) {
    hidden_depth = 0;
    if (depth_ != 0) ignore_everything(false);
  }
  ~Visible() {
    if (depth_ != 0) ignore_everything(true);
    hidden_depth = depth_;
  }
  Visible(const Visible&) = delete;
  Visible& operator=(const Visible&) = delete;

 private:
  unsigned depth_;
};

/// One end of a happens-before edge that CUDA promises: what this thread did until here ...
inline void release(char& edge) {
  if (hidden_depth != 0) ignore_synchronisation(false);
  __tsan_release(&edge);
  if (hidden_depth != 0) ignore_synchronisation(true);
}
/// ... happens before what a thread does after it acquired the same edge.
inline void acquire(char& edge) {
  if (hidden_depth != 0) ignore_synchronisation(false);
  __tsan_acquire(&edge);
  if (hidden_depth != 0) ignore_synchronisation(true);
}
#else
struct Hidden {
  Hidden() {}
  ~Hidden() {}
};
struct Visible {
  Visible() {}
  ~Visible() {}
};
inline void release(char&) {}
inline void acquire(char&) {}
#endif

}  // namespace emulator
