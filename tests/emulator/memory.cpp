// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Device memory: pages of its own for each allocation, with poison inside and canaries around.
#include "memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "stream.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(begin, bytes) ((void)(begin), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(begin, bytes) ((void)(begin), (void)(bytes))
#endif

namespace emulator {
namespace {

constexpr unsigned char canary = 0xa5;
constexpr int poison = 0xff;
constexpr std::size_t freed_kept = 512;

struct Memory {
  std::map<const char*, Allocation> live;
  std::deque<Allocation> freed;  ///< Their addresses are not used again while they are here.
};
Memory& memory() {
  static Memory* const only = new Memory;
  return *only;
}

std::size_t page_bytes() {
  static const std::size_t bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}
std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

/// Adds the bit of device memory to an address of such memory.
char* marked(char* pointer, MemoryKind kind) {
  if (kind == MemoryKind::pinned) return pointer;
  return reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(pointer) | device_bit);
}

/// The parts of the pages that do not belong to the allocation, as the host sees them.
struct Margins {
  char* before;
  std::size_t bytes_before;
  char* after;
  std::size_t bytes_after;
};
Margins margins(const Allocation& a) {
  char* const begin = host_view(a.begin);
  char* const first = host_view(a.mapping);
  char* const guard = first + a.mapped - page_bytes();
  return {first, static_cast<std::size_t>(begin - first), begin + a.bytes,
          static_cast<std::size_t>(guard - begin) - a.bytes};
}

bool canaries_hold(const Allocation& a) {
  const Margins m = margins(a);
  ASAN_UNPOISON_MEMORY_REGION(m.before, m.bytes_before);
  ASAN_UNPOISON_MEMORY_REGION(m.after, m.bytes_after);
  const auto holds = [](char byte) { return static_cast<unsigned char>(byte) == canary; };
  return std::all_of(m.before, m.before + m.bytes_before, holds) &&
         std::all_of(m.after, m.after + m.bytes_after, holds);
}

std::string describe(const void* pointer, std::size_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "%zu bytes at %p", bytes, pointer);
  return text;
}

}  // namespace

// What valid_access reads: each thread holds a copy of the table of ranges, and renews it when the
// table's version is another. Its loads must leave no edge, thus the attribute.
namespace {

struct Range {
  const char* begin;
  const char* end;
  int device;  ///< -1: memory of the host, which every device may access.
};
struct Table {
  std::vector<Range> ranges;
};
std::uint64_t table_version = 1;
struct ThreadTable {
  std::shared_ptr<const Table> table;
  const Range* ranges = nullptr;
  std::size_t count = 0;
  std::uint64_t version = 0;
  int device = -1;
};
ThreadTable& thread_table() {
  thread_local ThreadTable table;
  return table;
}

void renew(ThreadTable& own) {
  Hidden hidden;
  const Lock held = lock();
  auto table = std::make_shared<Table>();
  for (const auto& [begin, a] : memory().live) {
    const int device = a.kind == MemoryKind::pinned ? -1 : a.device;
    table->ranges.push_back({a.begin, a.begin + a.bytes, device});
  }
  own.ranges = table->ranges.data();
  own.count = table->ranges.size();
  own.table = std::move(table);
  own.version = __atomic_load_n(&table_version, __ATOMIC_RELAXED);
}
void changed() { __atomic_fetch_add(&table_version, 1, __ATOMIC_RELAXED); }

}  // namespace

#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread")))
#endif
bool valid_access(const void* pointer, std::size_t bytes) noexcept {
  ThreadTable& own = thread_table();
  if (own.version != __atomic_load_n(&table_version, __ATOMIC_RELAXED)) renew(own);
  const char* const begin = static_cast<const char*>(pointer);
  std::size_t low = 0, high = own.count;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (own.ranges[middle].end <= begin) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == own.count) return false;
  const Range& range = own.ranges[low];
  if (begin < range.begin || bytes > static_cast<std::size_t>(range.end - begin)) return false;
  return own.device < 0 || range.device < 0 || range.device == own.device;
}

void set_working_device(int device) { thread_table().device = device; }

void poison_memory(char* pointer, std::size_t bytes) {
  char* const begin = host_view(pointer);
  // Of what is huge the ends suffice: all of it would cost as many pages.
  constexpr std::size_t huge = std::size_t{64} << 20, part = std::size_t{1} << 20;
  if (bytes <= huge) {
    std::memset(begin, poison, bytes);
  } else {
    std::memset(begin, poison, part);
    std::memset(begin + bytes - part, poison, part);
  }
}

char* allocate(Lock&, std::size_t bytes, int device, MemoryKind kind, std::size_t alignment,
               bool poisoned) {
  Device& of = state().devices[device];
  if (kind == MemoryKind::device &&
      (bytes > state().memory_limit || of.in_use > state().memory_limit - bytes)) {
    throw CudaFailure{cudaErrorMemoryAllocation};
  }
  // The allocation ends as near to the guard page as its alignment lets it.
  const std::size_t pages = round_up(std::max<std::size_t>(bytes, 1), page_bytes());
  const std::size_t mapped = pages + page_bytes();
  void* const mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw CudaFailure{cudaErrorMemoryAllocation};
  char* const first = static_cast<char*>(mapping);
  mprotect(first + pages, page_bytes(), PROT_NONE);
  const std::size_t before = (pages - bytes) / alignment * alignment;
  char* const marked_first = marked(first, kind);
  const Allocation a{marked_first + before, bytes, device, kind, marked_first, mapped};
  const Margins m = margins(a);
  std::memset(m.before, canary, m.bytes_before);
  std::memset(m.after, canary, m.bytes_after);
  ASAN_POISON_MEMORY_REGION(m.before, m.bytes_before);
  ASAN_POISON_MEMORY_REGION(m.after, m.bytes_after);
  if (poisoned) {
    Visible visible;
    poison_memory(a.begin, a.bytes);
  }
  memory().live.emplace(a.begin, a);
  changed();
  if (kind == MemoryKind::device) {
    of.in_use += bytes;
    of.peak = std::max(of.peak, of.in_use);
  }
  return a.begin;
}

Allocation forget_allocation(Lock& held, const void* pointer, MemoryKind kind) {
  const auto found = memory().live.find(static_cast<const char*>(pointer));
  if (found == memory().live.end() || found->second.kind != kind) {
    report(held, "memory was freed that is no such allocation, or not any more: " +
                     wrong_device_access(held, pointer, 1));
    throw CudaFailure{cudaErrorInvalidValue};
  }
  const Allocation a = found->second;
  memory().live.erase(found);
  changed();
  return a;
}

void count_as_freed(Lock&, const Allocation& a) {
  if (a.kind == MemoryKind::device) state().devices[a.device].in_use -= a.bytes;
}

void release_memory(const Allocation& a) {
  {
    // A write for the sanitizers: whoever still uses the memory races with it.
    Visible visible;
    poison_memory(a.begin, a.bytes);
  }
  const bool intact = canaries_hold(a);
  mmap(host_view(a.mapping), a.mapped, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  Lock held = lock();
  if (!intact) {
    report(held, "bytes around an allocation of " + describe(a.begin, a.bytes) +
                     " were overwritten; seen when it was freed");
  }
  memory().freed.push_back(a);
  if (memory().freed.size() <= freed_kept) return;
  munmap(host_view(memory().freed.front().mapping), memory().freed.front().mapped);
  memory().freed.pop_front();
}

void free_after_all_work(Lock& held, void* pointer, MemoryKind kind) {
  const Allocation* const found = find_allocation(held, pointer);
  wait_for_device(held, found ? found->device : current_device());
  const Allocation a = forget_allocation(held, pointer, kind);
  count_as_freed(held, a);
  held.unlock();
  release_memory(a);
  held.lock();
}

const Allocation* find_allocation(Lock&, const void* pointer) {
  const char* const byte = static_cast<const char*>(pointer);
  auto after = memory().live.upper_bound(byte);
  if (after == memory().live.begin()) return nullptr;
  const Allocation& a = (--after)->second;
  return byte < a.begin + std::max<std::size_t>(a.bytes, 1) ? &a : nullptr;
}

std::string wrong_access(Lock& held, const void* pointer, std::size_t bytes) {
  if (bytes == 0) return {};
  const char* const begin = static_cast<const char*>(pointer);
  if (!begin) return describe(pointer, bytes) + ", which is no memory";
  if (const Allocation* a = find_allocation(held, pointer)) {
    if (bytes <= static_cast<std::size_t>(a->begin + a->bytes - begin)) return {};
    return describe(pointer, bytes) + " go past an allocation of " + describe(a->begin, a->bytes);
  }
  const auto touches = [&](const Allocation& a) {
    return begin < a.mapping + a.mapped && begin + bytes > a.mapping;
  };
  for (const auto& [first, a] : memory().live) {
    if (!touches(a)) continue;
    return describe(pointer, bytes) + " lie beside an allocation of " + describe(a.begin, a.bytes);
  }
  const auto& freed = memory().freed;
  const auto old = std::find_if(freed.rbegin(), freed.rend(), touches);
  if (old == freed.rend()) return {};
  return describe(pointer, bytes) + " belong to an allocation of " +
         describe(old->begin, old->bytes) + " that was freed";
}

std::string wrong_device_access(Lock& held, const void* pointer, std::size_t bytes) {
  std::string wrong = wrong_access(held, pointer, bytes);
  if (!wrong.empty() || bytes == 0 || find_allocation(held, pointer)) return wrong;
  return describe(pointer, bytes) + " are in no allocation";
}

void check_access(const void* pointer, std::size_t bytes, bool must_be_allocated) {
  Hidden hidden;
  Lock held = lock();
  const std::string wrong = must_be_allocated ? wrong_device_access(held, pointer, bytes)
                                              : wrong_access(held, pointer, bytes);
  if (!wrong.empty()) throw WorkFailure{cudaErrorIllegalAddress, "access to " + wrong};
}

MemoryCounts count_allocations(Lock&) {
  MemoryCounts counts{0, 0};
  for (const auto& [begin, a] : memory().live) {
    ++(a.kind == MemoryKind::device ? counts.device : counts.pinned);
  }
  return counts;
}

}  // namespace emulator
