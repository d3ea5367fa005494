// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// MeasuredDuration: how long steps take, from executions that were measured. May include schedule/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>
#include <zero/schedule/cost.hpp>

namespace zero::plan {

/// A machine as it was measured: each operation on a unit or group of one kind takes the median of
/// what it took. Give it to simulate() to see what a schedule would do with such steps.
///
/// Units:   microseconds. `spans` are [execution, step of the schedule], one or more executions.
class MeasuredDuration {
 public:
  /// From what the steps of one execution took.
  MeasuredDuration(const Schedule& schedule, std::span<const Span> spans) : schedule_(&schedule) {
    std::map<Key, std::vector<double>> lengths;
    const std::size_t n = schedule.steps.size();
    for (std::size_t i = 0; i < spans.size() && n != 0; ++i) {
      lengths[key(schedule.steps[i % n])].push_back(spans[i].end - spans[i].begin);
    }
    for (auto& [of, all] : lengths) {
      const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
      std::nth_element(all.begin(), middle, all.end());
      medians_[of] = *middle;
    }
  }

  /// The median of steps like this one, or 0 if there was none.
  double operator()(const Step& step) const {
    const auto found = medians_.find(key(step));
    return found == medians_.end() ? 0 : found->second;
  }

 private:
  using Key = std::pair<Op, std::size_t>;
  Key key(const Step& step) const {
    const ModelShape& model = schedule_->model;
    if (step.op == Op::combine) return {step.op, 0};
    if (!computes(step.op)) return {step.op, model.group(step.subject).kind};
    const ModelShape::Unit& unit = model.unit(step.subject);
    return {step.op, unit.count == 0 ? 0 : model.group(unit.groups[0]).kind};
  }

  const Schedule* schedule_;
  std::map<Key, double> medians_;
};

}  // namespace zero::plan
