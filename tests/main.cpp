// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The main function of every test program, which counts what is allocated.
#define BOOST_TEST_MODULE zero
#include <malloc.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <new>

#include "counting_new.hpp"

std::atomic<std::size_t> allocations{0};
std::atomic<std::size_t> aligned_bytes{0};
std::atomic<std::size_t> live_bytes{0}, peak_bytes{0};

// All relaxed: else each allocation would order threads, and hide races from the thread sanitizer.
constexpr std::memory_order relaxed = std::memory_order_relaxed;

static void* counted(void* pointer) {
  const std::size_t bytes = malloc_usable_size(pointer);
  const std::size_t now = live_bytes.fetch_add(bytes, relaxed) + bytes;
  std::size_t most = peak_bytes.load(relaxed);
  while (most < now && !peak_bytes.compare_exchange_weak(most, now, relaxed)) continue;
  return pointer;
}
static void give_back(void* pointer) {
  if (pointer != nullptr) live_bytes.fetch_sub(malloc_usable_size(pointer), relaxed);
  std::free(pointer);
}

// GCC takes the pair of malloc and free below for a mismatch when it inlines only one of them.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, relaxed);
  if (void* pointer = std::malloc(bytes == 0 ? 1 : bytes)) return counted(pointer);
  throw std::bad_alloc();
}
// A sanitizer has these of its own, which would not call the others.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) { return nullptr; }
}
void operator delete(void* pointer) noexcept { give_back(pointer); }
void operator delete(void* pointer, std::size_t) noexcept { give_back(pointer); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  allocations.fetch_add(1, relaxed);
  aligned_bytes.fetch_add(bytes, relaxed);
  const auto align = static_cast<std::size_t>(alignment);
  if (void* pointer = std::aligned_alloc(align, (bytes + align - 1) / align * align)) {
    return counted(pointer);
  }
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes, alignment);
  } catch (const std::bad_alloc&) { return nullptr; }
}
void operator delete(void* pointer, std::align_val_t) noexcept { give_back(pointer); }
void operator delete(void* pointer, std::size_t, std::align_val_t) noexcept { give_back(pointer); }
