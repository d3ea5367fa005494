// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// OffloadOptimizer: optimizer state is kept in a file, or in memory of the host. Includes schedule/
// and policy/ only.
#pragma once

#include <cstddef>
#include <zero/policy/shards.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero {

/// In a file of each rank, in the directory ModuleOptions::offload.directory. Of modules of a host.
struct InFile {
  static constexpr StateHome state_home = StateHome::file;  // what a stage asks
};
/// In memory of the host; pinned, where the module is one of a CUDA device.
struct InHostMemory {
  static constexpr StateHome state_home = StateHome::host_memory;  // what a stage asks
};

/// Options of OffloadOptimizer.
struct OffloadOptions {
  std::size_t slots = 2;  // groups whose state may be in memory at once
};

/// Keeps optimizer state and masters elsewhere than where they are updated. They pass through a few
/// slots, each as large as the state of the largest group: while one group is updated, that of the
/// one before is stored and that of the next one fetched. Updates give the same bits.
///
/// Moves:   in each training step the whole state of the rank is fetched once and stored once.
/// Source:  Ren et al., ZeRO-Offload, 2021; Rajbhandari et al., ZeRO-Infinity, 2021, section 5.2.
template <class Where = InFile, OffloadOptions Options = OffloadOptions{}>
struct OffloadOptimizer {
  using shards = Nothing;  // that is the stage's matter
  static_assert(Options.slots != 0,
                "zero::OffloadOptimizer: state is updated in a slot; give it at least one.");
  static constexpr StateHome state_home = Where::state_home;  // what a stage asks
  static constexpr std::size_t state_slots = Options.slots;   // the same
};

}  // namespace zero
