// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How a program ends: what it says and the exit code it returns. Includes std and POSIX sigaction.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>

#include "usage_error.hpp"

namespace gpt {

/// Ctrl-C was pressed: the program ends between two steps.
struct Interrupted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Whether it was. A second Ctrl-C ends the program at once.
inline std::atomic<bool> interrupted = false;

/// Runs body() and returns the exit code: what body returns; 2 if the person asked for something
/// that cannot be done, 130 after an interrupt, 1 for every other error, each with one message.
template <class Body>
int run_program(const char* name, Body body) {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  const auto end = [&](const char* text, int code) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s: %s\n", name, text);
    return code;
  };
  try {
    return body();
  } catch (const UsageError& error) {
    return end(error.what(), 2);
  } catch (const Interrupted& error) {
    return end(error.what(), 130);
  } catch (const std::bad_alloc&) {
    return end("No memory is left: choose a smaller model or fewer sequences.", 1);
  } catch (const std::length_error&) {
    return end("No memory is large enough: choose a smaller model or fewer sequences.", 1);
  } catch (const std::exception& error) { return end(error.what(), 1); }
}

}  // namespace gpt
