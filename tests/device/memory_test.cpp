// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <zero/base/element.hpp>
#include <zero/device/memory.hpp>

BOOST_AUTO_TEST_SUITE(memory_test)

using zero::Arena;
using zero::HostMemory;
using zero::MemoryKind;

// A sanitizer ends the program when memory runs out, unless it is told not to.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }

bool aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 64 == 0; }

struct Buffers {
  std::span<float> weights;
  std::span<zero::bf16> slot;
  std::span<double> control;

  explicit Buffers(Arena& arena)
      : weights(arena.take<float>(MemoryKind::weights, 5)),
        slot(arena.take<zero::bf16>(MemoryKind::slots, 33)),
        control(arena.take<double>(MemoryKind::control, 3)) {}
};

BOOST_AUTO_TEST_CASE(host_memory_is_aligned_and_writable) {
  HostMemory memory;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{63}, std::size_t{4096}}) {
    auto* pointer = static_cast<std::byte*>(memory.allocate(bytes));
    BOOST_TEST(aligned(pointer));
    pointer[bytes - 1] = std::byte{1};
    memory.deallocate(pointer, bytes);
  }
  memory.deallocate(memory.allocate(0, 16), 0);
}

BOOST_AUTO_TEST_CASE(a_failure_to_allocate_says_how_many_bytes) {
  HostMemory memory;
  constexpr std::size_t too_many = std::size_t{1} << 60;
  BOOST_CHECK_EXCEPTION(memory.allocate(too_many), zero::DeviceError, [](const auto& error) {
    return std::string(error.what()).find("1152921504606846976 bytes") != std::string::npos;
  });
  BOOST_CHECK_THROW(memory.allocate(64, 128), zero::ContractError);
}

BOOST_AUTO_TEST_CASE(an_arena_that_only_counts_tells_the_size_that_is_then_exactly_enough) {
  Arena plan;
  const Buffers planned(plan);
  BOOST_TEST(plan.only_counts());
  BOOST_TEST(planned.weights.data() == nullptr);
  BOOST_TEST(planned.weights.size() == 5U);

  HostMemory memory;
  void* block = memory.allocate(plan.used());
  Arena arena(block, plan.used());
  const Buffers buffers(arena);
  BOOST_TEST(arena.used() == arena.capacity());
  BOOST_TEST(arena.used() == plan.used());
  for (float& x : buffers.weights) x = 1;
  for (zero::bf16& x : buffers.slot) x = zero::bf16(2.0F);
  for (double& x : buffers.control) x = 3;
  for (const float x : buffers.weights) BOOST_TEST(x == 1.0F);
  BOOST_TEST(aligned(buffers.weights.data()));
  BOOST_TEST(aligned(buffers.slot.data()));
  BOOST_TEST(aligned(buffers.control.data()));
  BOOST_CHECK_THROW(arena.take<float>(MemoryKind::weights, 1), zero::ContractError);
  BOOST_TEST(arena.take<float>(MemoryKind::weights, 0).empty());
  memory.deallocate(block, plan.used());

  alignas(64) std::array<std::byte, 1024> small;
  Arena too_small(small.data(), plan.used() - 1);
  BOOST_CHECK_THROW(Buffers{too_small}, zero::ContractError);
}

BOOST_AUTO_TEST_CASE(the_bytes_of_all_kinds_and_the_gaps_add_up) {
  Arena arena;
  const Buffers buffers(arena);
  BOOST_TEST(arena.used(MemoryKind::weights) == 20U);
  BOOST_TEST(arena.used(MemoryKind::slots) == 66U);
  BOOST_TEST(arena.used(MemoryKind::control) == 24U);
  BOOST_TEST(arena.used(MemoryKind::gradients) == 0U);
  BOOST_TEST(arena.gaps() == 44U + 62U);
  BOOST_TEST(arena.used() == 20U + 66U + 24U + arena.gaps());
}

BOOST_AUTO_TEST_CASE(more_elements_than_64_bits_can_count_are_refused) {
  Arena arena;
  constexpr std::size_t huge = std::numeric_limits<std::size_t>::max() / 4;
  BOOST_CHECK_THROW(arena.take<double>(MemoryKind::weights, huge), zero::ContractError);
  BOOST_TEST(arena.used() == 0U);
  arena.take<std::byte>(MemoryKind::weights, std::numeric_limits<std::size_t>::max() - 1);
  BOOST_CHECK_THROW(arena.take<std::byte>(MemoryKind::weights, 2), zero::ContractError);
}

BOOST_AUTO_TEST_CASE(a_block_that_is_not_aligned_is_refused) {
  alignas(64) std::array<std::byte, 128> block;
  BOOST_CHECK_THROW(Arena(block.data() + 8, 64), zero::ContractError);
}

BOOST_AUTO_TEST_SUITE_END()
