// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How often to save, if devices fail. Includes the standard library only.
#pragma once
#include <cmath>
#include <cstddef>

namespace zero::plan {

/// How often to save.
struct CheckpointPlan {
  double interval_seconds = 0;  // from the end of one save to the begin of the next
  double lost_share = 0;        // of all time: saving, work done again, and restarting
};

/// The interval between saves that loses the least time, if a device fails once in
/// `device_mtbf_seconds`, a save stalls training for `save_seconds`, and a restart takes
/// `restart_seconds`.
///
/// Source:  Daly, A higher order estimate of the optimum checkpoint interval for restart dumps,
///          2006, equation 37; its first term is Young's, 1974: sqrt(2 * save * mtbf).
inline CheckpointPlan checkpoint_plan(std::size_t devices, double device_mtbf_seconds,
                                      double save_seconds, double restart_seconds = 0) {
  const double mtbf = device_mtbf_seconds / static_cast<double>(devices);
  CheckpointPlan plan;
  if (save_seconds >= 2 * mtbf) {
    plan.interval_seconds = mtbf;
  } else {
    const double ratio = save_seconds / (2 * mtbf);
    plan.interval_seconds =
        std::sqrt(2 * save_seconds * mtbf) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - save_seconds;
  }
  const double cycle = plan.interval_seconds + save_seconds;
  // Useful work over the time that it takes with failures, equation 20.
  const double taken = mtbf * std::exp(restart_seconds / mtbf) * std::expm1(cycle / mtbf);
  plan.lost_share = 1 - plan.interval_seconds / taken;
  return plan;
}

}  // namespace zero::plan
