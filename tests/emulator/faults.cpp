// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Counts of calls and the faults that a test asked for.
#include <algorithm>
#include <map>

#include "call.hpp"

namespace emulator {
namespace {

struct Counts {
  std::uint64_t all = 0;
  std::map<std::string, std::uint64_t> of = {};
};
struct Faults {
  std::vector<CallFault> armed;
  std::map<int, Counts> counts;  ///< By device, -1: of all.
};
Faults& faults() {
  static Faults* const only = new Faults;
  return *only;
}
thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

std::optional<CallFault> begin_call(const char* function) {
  Lock held = lock();
  const int device = current_device();
  for (const int counted : {-1, device}) {
    Counts& counts = faults().counts[counted];
    ++counts.all;
    ++counts.of[function];
  }
  add_record(held, false, function, device, 0, 0);
  for (auto fault = faults().armed.begin(); fault != faults().armed.end(); ++fault) {
    if (!fault->function.empty() && fault->function != function) continue;
    if (fault->device >= 0 && fault->device != device) continue;
    if (--fault->call != 0) continue;
    const CallFault found = *fault;
    faults().armed.erase(fault);
    return found;
  }
  return std::nullopt;
}

bool& in_host_function() {
  thread_local bool inside = false;
  return inside;
}

cudaError_t sticky_error(int device) {
  const Lock held = lock();
  return state().devices[device].sticky;
}
cudaError_t sticky_error() { return sticky_error(current_device()); }

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void fail_call(CallFault fault) {
  Hidden hidden;
  const Lock held = lock();
  faults().armed.push_back(std::move(fault));
}

std::uint64_t calls(int device) {
  Hidden hidden;
  const Lock held = lock();
  return faults().counts[device].all;
}

std::uint64_t calls_of(const std::string& function, int device) {
  Hidden hidden;
  const Lock held = lock();
  return faults().counts[device].of[function];
}

void fail_work(int device, std::uint64_t nth, cudaError_t error) {
  Hidden hidden;
  const Lock held = lock();
  Device& failing = state().devices[device];
  failing.work_to_fail = failing.work_begun + nth;
  failing.work_error = error;
}

void set_delays(unsigned most_us, unsigned seed) {
  Hidden hidden;
  const Lock held = lock();
  state().delay_us = most_us;
  state().delay_seed = seed;
}

void reset() {
  Hidden hidden;
  const Lock held = lock();
  faults().armed.clear();
  faults().counts.clear();
  State& all = state();
  for (Device& device : all.devices) {
    device.sticky = cudaSuccess;
    device.work_to_fail = 0;
    device.peak = device.in_use;
  }
  all.device_count = devices_at_the_start();
  all.memory_limit = std::size_t{16} << 30;
  all.delay_us = 0;
  all.most_resident = 0;
  all.tracing = false;
  all.records.clear();
  all.reports.clear();
  last_error = cudaSuccess;
}

}  // namespace emulator

extern "C" {
cudaError_t cudaGetLastError() {
  using namespace emulator;
  Hidden hidden;
  const cudaError_t sticky = sticky_error();
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return sticky != cudaSuccess ? sticky : error;
}
cudaError_t cudaPeekAtLastError() {
  using namespace emulator;
  Hidden hidden;
  const cudaError_t sticky = sticky_error();
  return sticky != cudaSuccess ? sticky : last_error;
}
}
