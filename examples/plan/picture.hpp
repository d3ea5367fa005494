// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// One step of the best candidate as a picture or as a trace. Includes zero/plan and headers beside
// it.
#pragma once

#include <algorithm>
#include <ostream>
#include <string>
#include <zero/plan/timeline_svg.hpp>

#include "report.hpp"

namespace zero_plan {

/// Draws one step of the best candidate, at most two of its micro-steps, as SVG or as a trace for
/// Perfetto.
///
/// Errors:  UsageError if nothing fits.
inline void print_picture(std::ostream& out, const Options& options,
                          const zero::plan::Advice& advice) {
  const zero::plan::Candidate* best = advice.best();
  if (best == nullptr) throw UsageError(advice.conclusion);
  const zero::plan::Training& training = best->training;
  const std::size_t shown = std::min<std::size_t>(training.micro_steps, 2);
  const zero::Schedule schedule = training.schedule(shown);
  const zero::plan::Simulation step = simulate(training, options.question.machine, schedule);
  const std::size_t layers = training.model.dims.layers;
  const auto name = [layers](std::size_t unit) {
    return unit == 0        ? std::string("embedding")
           : unit <= layers ? "block " + std::to_string(unit - 1)
                            : std::string("head");
  };
  if (options.format == "trace") {
    zero::print_trace(out, schedule, step.spans, name);
    return;
  }
  std::string title = std::string(training.model.name) + ", " + std::string(best->stage) + " on " +
                      std::to_string(training.mesh.devices()) + " x " +
                      std::string(options.question.machine.device.name) + ", simulated";
  if (shown < training.micro_steps)
    title += ": 2 of " + std::to_string(training.micro_steps) + " micro-steps";
  zero::print_timeline_svg(out, schedule, step.spans, title, name);
}

}  // namespace zero_plan
