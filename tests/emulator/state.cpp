// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The emulator's state, its reports and its records.
#include "state.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace emulator {
namespace {

void end_with_reports() {
  if (state().reports.empty()) return;
  std::fprintf(stderr, "emulator: reports that nobody took: %zu\n", state().reports.size());
  std::fflush(nullptr);
  std::_Exit(66);
}

}  // namespace

State& state() {
  static State* const only = [] {
    Hidden hidden;
    std::atexit(end_with_reports);
    return new State;
  }();
  return *only;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

double now_ms() {
  using Clock = std::chrono::steady_clock;
  static const Clock::time_point begin = Clock::now();
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void report(Lock&, const std::string& text) {
  std::fprintf(stderr, "emulator: %s\n", text.c_str());
  state().reports.push_back(text);
}

std::vector<std::string> take_reports() {
  Hidden hidden;
  const Lock held = lock();
  return std::exchange(state().reports, {});
}

void add_record(Lock&, bool work, const std::string& what, int device, unsigned stream,
                std::size_t bytes) {
  State& all = state();
  if (all.tracing) all.records.push_back({all.records.size(), work, what, device, stream, bytes});
}

void set_tracing(bool on) {
  Hidden hidden;
  const Lock held = lock();
  state().tracing = on;
}

std::vector<Record> trace() {
  Hidden hidden;
  const Lock held = lock();
  return state().records;
}

void fail_device(Lock&, int device, cudaError_t error) {
  Device& failed = state().devices[device];
  if (failed.sticky != cudaSuccess) return;
  failed.sticky = error;
  for (const auto& wake : state().when_device_fails) wake();
}

}  // namespace emulator
