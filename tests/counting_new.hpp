// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What tests/main.cpp counts in every test program.
#pragma once

#include <atomic>
#include <cstddef>

/// Calls of operator new.
extern std::atomic<std::size_t> allocations;
/// Bytes that operator new was asked for with an alignment.
extern std::atomic<std::size_t> aligned_bytes;
/// Bytes that operator new has given and not got back, and the most that these have been.
extern std::atomic<std::size_t> live_bytes, peak_bytes;
