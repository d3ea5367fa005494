// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include "ptx_warp.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>

#include "ptx.hpp"

namespace emulator::ptx {

namespace {
constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();

std::string place(const dim3& at) {
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) +
         ")";
}
}  // namespace

Warp::Warp(Execution& execution, unsigned first_thread, unsigned threads, std::uint64_t* rows)
    : execution_(execution),
      first_thread_(first_thread),
      threads_(threads >= warp_size ? ~Mask{0} : (Mask{1} << threads) - 1),
      rows_(rows) {
  for (const Program::Constant& constant : execution.program.constants) {
    std::fill_n(row(constant.row), warp_size, constant.value);
  }
}

void Warp::begin() {
  alive = threads_;
  waiting = stalled = 0;
  std::fill_n(next, warp_size, 0U);
  for (const Program::Special& special : execution_.program.specials) {
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      row(special.row)[lane] = special.value(execution_, first_thread_ + lane);
    }
  }
}

void Warp::set_next(Mask lanes, std::uint32_t at) {
  for_lanes(lanes, [&](unsigned lane) { next[lane] = at; });
}

// The lanes that are furthest behind go on, so that those which took different ways meet again.
void Warp::run() {
  while (const Mask ready = alive & ~waiting & ~stalled) {
    std::uint32_t least = nowhere, others = nowhere;
    for_lanes(ready, [&](unsigned lane) { least = std::min(least, next[lane]); });
    Mask group = 0;
    for_lanes(ready, [&](unsigned lane) {
      if (next[lane] == least) {
        group |= Mask{1} << lane;
      } else {
        others = std::min(others, next[lane]);
      }
    });
    run_group(group, least, others);
  }
}

void Warp::run_group(Mask group, std::uint32_t at, std::uint32_t others) {
  const Instruction* const code = execution_.program.code.data();
  while (at < others) {
    const Instruction& i = code[at];
    Mask active = group;
    if (i.has_guard) active &= i.guard_negated ? ~predicate(i.guard) : predicate(i.guard);
    if (i.flow == Instruction::Flow::on) {
      if (active != 0) i.run(*this, i, active);
      ++at;
      continue;
    }
    if (active == 0) {
      ++at;
      continue;
    }
    set_next(group & ~active, at + 1);
    switch (i.flow) {
      case Instruction::Flow::branch:
        if (active == group) {
          at = i.target;
          continue;
        }
        set_next(active, i.target);
        return;
      case Instruction::Flow::exit: alive &= ~active; return;
      case Instruction::Flow::barrier:
        if (i.run != nullptr) i.run(*this, i, active);
        set_next(active, at + 1);
        waiting |= active;
        return;
      default: break;
    }
    // Together: with those that wait here already.
    set_next(active, at);
    for_lanes(stalled, [&](unsigned lane) {
      if (next[lane] == at) active |= Mask{1} << lane;
    });
    const auto lane = static_cast<unsigned>(__builtin_ctz(active));
    const auto members = static_cast<Mask>(row(i.from[i.operands - 1])[lane]);
    if ((members & alive & ~active) != 0) {
      stalled |= active;
      return;
    }
    stalled &= ~active;
    if (i.run != nullptr) i.run(*this, i, active);
    set_next(active, at + 1);
    if (active != group) return;
    ++at;
  }
  set_next(group, at);
}

void Warp::fault(const Instruction& at, unsigned lane, cudaError_t error,
                 const std::string& what) const {
  const dim3 thread = execution_.thread_place(first_thread_ + lane);
  throw KernelFault(error, "kernel " + execution_.program.kernel + ", block " +
                               place(execution_.block) + ", thread " + place(thread) + ": `" +
                               *at.text + "`: " + what);
}

void Execution::run() {
  shared.resize((shared_bytes + 7) / 8);
  local.resize((program.local_bytes * threads() + 7) / 8);
  // Kept from run to run, and not filled: most of a block does little in a small kernel, and memory
  // that is touched for the first time costs more than that.
  static thread_local std::unique_ptr<std::uint64_t[]> rows;
  static thread_local std::size_t room = 0;
  const std::size_t numbers = std::size_t{program.rows} * warp_size;
  const unsigned count = (threads() + warp_size - 1) / warp_size;
  if (room < numbers * count) {
    room = numbers * count;
    rows.reset();
    rows.reset(new std::uint64_t[room]);
  }
  warps.reserve(count);
  for (unsigned k = 0; k < count; ++k) {
    const unsigned first = k * warp_size;
    warps.emplace_back(*this, first, threads() - first, rows.get() + k * numbers);
  }
  for (block.z = 0; block.z < grid.z; ++block.z) {
    for (block.y = 0; block.y < grid.y; ++block.y) {
      for (block.x = 0; block.x < grid.x; ++block.x) run_block();
    }
  }
}

void Execution::run_block() {
  // What nobody wrote is no number.
  std::fill(shared.begin(), shared.end(), ~std::uint64_t{0});
  std::fill(local.begin(), local.end(), ~std::uint64_t{0});
  for (Warp& warp : warps) warp.begin();
  for (;;) {
    Mask alive = 0;
    for (Warp& warp : warps) {
      warp.run();
      alive |= warp.alive;
    }
    if (alive == 0) return;
    if (!release_barrier()) {
      // A lane that waits for others of its warp says more than one at a barrier.
      for (Warp& warp : warps) {
        if (warp.stalled != 0) warp.fault_stuck(warp.stalled, 0);
      }
      for (Warp& warp : warps) {
        if (warp.waiting != 0) warp.fault_stuck(warp.waiting, 1);
      }
    }
  }
}

void Warp::fault_stuck(Mask lanes, std::uint32_t before) const {
  const auto lane = static_cast<unsigned>(__builtin_ctz(lanes));
  fault(execution_.program.code[next[lane] - before], lane, cudaErrorLaunchTimeout,
        "divergence: it waits for threads that never come here, since they wait elsewhere");
}

}  // namespace emulator::ptx
