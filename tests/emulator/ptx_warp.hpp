// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What runs a program: a grid with one block at a time, of warps of 32 lanes.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ptx_program.hpp"

namespace emulator::ptx {

struct Execution;

class Warp {
 public:
  /// Pre:     `rows` has warp_size numbers for each row of the program.
  Warp(Execution& execution, unsigned first_thread, unsigned threads, std::uint64_t* rows);

  /// Begins a block.
  void begin();
  /// Runs until no lane can go on: each has ended or waits.
  void run();

  std::uint64_t* row(Row row) { return rows_ + std::size_t{row} * warp_size; }
  Mask& predicate(Row at) { return *reinterpret_cast<Mask*>(row(at)); }
  Execution& execution() { return execution_; }
  unsigned first_thread() const { return first_thread_; }

  Mask alive = 0;
  Mask waiting = 0;                    // at a barrier
  Mask stalled = 0;                    // for lanes that are to go on together with them
  std::uint32_t next[warp_size] = {};  // the instruction of each lane

  /// Pre:     the lanes wait for what does not come, at an instruction that is `before` theirs.
  [[noreturn]] void fault_stuck(Mask lanes, std::uint32_t before) const;
  [[noreturn]] void fault(const Instruction& at, unsigned lane, cudaError_t error,
                          const std::string& what) const;

 private:
  void run_group(Mask group, std::uint32_t at, std::uint32_t others);
  void set_next(Mask lanes, std::uint32_t at);

  Execution& execution_;
  unsigned first_thread_;
  Mask threads_;
  std::uint64_t* rows_;
};

/// One run of a kernel.
struct Execution {
  const Program& program;
  dim3 grid, size;
  std::vector<std::byte> parameters;
  std::size_t shared_bytes;
  dim3 block = {0, 0, 0};                  // the number of the block
  std::vector<std::uint64_t> shared = {};  // aligned as any variable may ask
  std::vector<std::uint64_t> local = {};
  std::vector<Warp> warps = {};

  void run();
  unsigned threads() const { return size.x * size.y * size.z; }
  dim3 thread_place(unsigned thread) const {
    return {thread % size.x, thread / size.x % size.y, thread / size.x / size.y};
  }
  std::byte* shared_begin() { return reinterpret_cast<std::byte*>(shared.data()); }
  std::byte* local_begin(unsigned thread) {
    return reinterpret_cast<std::byte*>(local.data()) + thread * program.local_bytes;
  }

 private:
  void run_block();
  bool release_barrier();
};

/// Calls f(lane) for each lane of a mask.
template <class F>
inline void for_lanes(Mask mask, const F& f) {
  if (mask == ~Mask{0}) {
    for (unsigned lane = 0; lane < warp_size; ++lane) f(lane);
    return;
  }
  for (; mask != 0; mask &= mask - 1) f(static_cast<unsigned>(__builtin_ctz(mask)));
}

/// The lanes of `mask` for which a predicate among the operands holds.
inline Mask holds(Warp& warp, const Instruction& i, unsigned operand) {
  const Mask mask = warp.predicate(i.from[operand]);
  return (i.negated >> operand & 1) != 0 ? ~mask : mask;
}
inline void set_predicate(Warp& warp, Row row, Mask lanes, Mask values) {
  Mask& predicate = warp.predicate(row);
  predicate = (predicate & ~lanes) | (values & lanes);
}

}  // namespace emulator::ptx
