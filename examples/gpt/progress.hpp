// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A progress line: redrawn in place on a terminal, about ten plain lines elsewhere. Includes std
// and POSIX isatty.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "functions.hpp"

namespace gpt {

class Progress {
 public:
  /// `tokens_per_step` of all ranks together.
  Progress(std::FILE* out, const char* name, Size steps, Size tokens_per_step)
      : out_(out),
        name_(name),
        steps_(steps),
        tokens_per_step_(tokens_per_step),
        terminal_(isatty(fileno(out)) == 1) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Leaves a line that was begun, so that an error stands on one of its own.
  ~Progress() {
    if (line_is_open_) std::fputc('\n', out_);
  }

  /// Tells that `step` (from 0) is done.
  void update(Size step, double loss) {
    const Clock::time_point now = Clock::now();
    const bool last = step + 1 == steps_;
    const Size interval = std::max<Size>(1, steps_ / 10);
    if (!last && (terminal_ ? now - drawn_ < std::chrono::milliseconds(100)
                            : step != 0 && (step + 1) % interval != 0))
      return;
    drawn_ = now;
    const double seconds = std::chrono::duration<double>(now - begin_).count();
    const double done = static_cast<double>(step + 1);
    line_is_open_ = terminal_ && !last;
    std::fprintf(out_, "%s%-5s  step %*lld/%lld  loss %.4f  %8.0f tokens/s  %4.0f s left%s",
                 terminal_ ? "\r" : "", name_, digits(steps_), static_cast<long long>(step + 1),
                 static_cast<long long>(steps_), loss,
                 done * static_cast<double>(tokens_per_step_) / seconds,
                 seconds / done * static_cast<double>(steps_ - step - 1),
                 line_is_open_ ? "" : "\n");
    std::fflush(out_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  static int digits(Size n) { return n < 10 ? 1 : 1 + digits(n / 10); }

  std::FILE* out_;
  const char* name_;
  Size steps_, tokens_per_step_;
  bool terminal_, line_is_open_ = false;
  Clock::time_point begin_ = Clock::now(), drawn_{};
};

}  // namespace gpt
