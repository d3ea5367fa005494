// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <algorithm>
#include <sstream>
#include <string>

#include "emulator.hpp"
#include "ptx_memory.hpp"

namespace emulator::ptx {

namespace {

/// Memory of a space that only kernels see.
struct Window {
  const char* name;
  std::byte* begin;
  std::size_t bytes;

  bool has(std::uint64_t address) const {
    const auto from = reinterpret_cast<std::uintptr_t>(begin);
    return address >= from && address - from < bytes;
  }
};
Window window_of(Warp& warp, unsigned lane, Space space) {
  Execution& e = warp.execution();
  switch (space) {
    case Space::shared: return {"shared", e.shared_begin(), e.shared_bytes};
    case Space::local:
      return {"local", e.local_begin(warp.first_thread() + lane), e.program.local_bytes};
    default: return {"parameter", e.parameters.data(), e.parameters.size()};
  }
}

[[noreturn]] void fault_at(Warp& warp, const Instruction& i, unsigned lane, cudaError_t error,
                           std::uint64_t address, std::size_t bytes, const std::string& what) {
  std::ostringstream text;
  text << "the " << bytes << " bytes at 0x" << std::hex << address << what;
  warp.fault(i, lane, error, text.str());
}

bool is_valid(Warp& warp, std::uint64_t address, std::uint64_t bytes) {
  Loaded& loaded = *warp.execution().program.loaded;
  const std::uint64_t from = address - reinterpret_cast<std::uintptr_t>(loaded.begin());
  if (from < loaded.bytes() && bytes <= loaded.bytes() - from) return true;
  return valid_access(reinterpret_cast<const void*>(address), bytes);
}

/// One question for all lanes where they lie close together, as they mostly do.
void check_global(Warp& warp, const Instruction& i, Mask mask, std::size_t bytes,
                  std::byte* const (&places)[warp_size]) {
  const auto address = [&](unsigned k) { return reinterpret_cast<std::uintptr_t>(places[k]); };
  std::uint64_t least = ~std::uint64_t{0}, most = 0;
  for_lanes(mask, [&](unsigned k) {
    least = std::min(least, std::uint64_t{address(k)});
    most = std::max(most, std::uint64_t{address(k)});
  });
  if (most - least < 65536 && is_valid(warp, least, most - least + bytes)) return;
  for_lanes(mask, [&](unsigned k) {
    if (is_valid(warp, address(k), bytes)) return;
    fault_at(warp, i, k, cudaErrorIllegalAddress, address(k), bytes,
             " lie in no allocation that is live and may be accessed from here");
  });
}

}  // namespace

Space space_of_generic(Warp& warp, unsigned lane, std::uint64_t address) {
  for (const Space space : {Space::shared, Space::local, Space::param}) {
    if (window_of(warp, lane, space).has(address)) return space;
  }
  return Space::global;
}

void locate(Warp& warp, const Instruction& i, Mask mask, std::size_t bytes,
            std::byte* (&places)[warp_size]) {
  const std::uint64_t* const base = warp.row(i.from[0]);
  const auto offset = static_cast<std::uint64_t>(i.offset);
  const bool is_generic = i.space == Space::generic;
  const bool has_window = !is_generic && i.space != Space::global && i.space != Space::constant;
  Mask global = has_window ? 0 : mask;
  std::uint64_t low_bits = 0;
  for_lanes(mask, [&](unsigned k) {
    std::uint64_t address = base[k] + offset;
    low_bits |= address;
    const Space space = is_generic ? space_of_generic(warp, k, address) : i.space;
    if (space != Space::global && space != Space::constant) {
      const Window window = window_of(warp, k, space);
      if (is_generic) address -= reinterpret_cast<std::uintptr_t>(window.begin);
      if (bytes > window.bytes || address > window.bytes - bytes) {
        fault_at(warp, i, k, cudaErrorIllegalAddress, address, bytes,
                 std::string(" lie outside of the ") + window.name + " memory of " +
                     std::to_string(window.bytes) + " bytes");
      }
      places[k] = window.begin + address;
      global &= ~(Mask{1} << k);
    } else {
      places[k] = reinterpret_cast<std::byte*>(address);
    }
  });
  const std::uint64_t alignment = bytes - 1;
  if ((low_bits & alignment) != 0) {
    for_lanes(mask, [&](unsigned k) {
      const std::uint64_t address = base[k] + offset;
      if ((address & alignment) == 0) return;
      fault_at(warp, i, k, cudaErrorMisalignedAddress, address, bytes,
               " are not aligned to their size");
    });
  }
  if (global == 0) return;
  check_global(warp, i, global, bytes, places);
  for_lanes(global, [&](unsigned k) { places[k] = host_view(places[k]); });
}

}  // namespace emulator::ptx
