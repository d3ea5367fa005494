// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The numbers of the page: an answer for each number of devices, stage and batch. Includes
// zero/plan and headers beside it.
#pragma once

#include <algorithm>
#include <cmath>
#include <ostream>
#include <string>
#include <vector>
#include <zero/plan/timeline_svg.hpp>

#include "report.hpp"

namespace zero_plan {

/// What the sliders of the page can be set to: numbers of devices around the one that was asked
/// about, and sequences of one device in a step around those `asked` for.
struct PageAxes {
  std::vector<std::size_t> devices, batches;
};
inline PageAxes page_axes(const zero::plan::Question& question, std::size_t asked) {
  PageAxes axes;
  std::size_t first = question.devices;
  for (int i = 0; i < 3 && first % 2 == 0; ++i) first /= 2;
  for (std::size_t n = first; n <= 4 * question.devices && n <= 1'000'000; n *= 2) {
    axes.devices.push_back(n);
  }
  for (std::size_t b = std::max<std::size_t>(1, asked / 4); b <= 4 * asked; b *= 2) {
    axes.batches.push_back(b);
  }
  if (std::find(axes.batches.begin(), axes.batches.end(), asked) == axes.batches.end()) {
    axes.batches.push_back(asked);
    std::sort(axes.batches.begin(), axes.batches.end());
  }
  return axes;
}

/// The best way to run one stage on so many devices, each with so many sequences a step.
inline zero::plan::Advice advise_cell(const zero::plan::Question& question, std::string_view stage,
                                      std::size_t devices, std::size_t batch) {
  zero::plan::Question cell = question;
  cell.stage = stage;
  cell.devices = devices;
  cell.global_batch = batch * devices;
  return zero::plan::advise(cell);
}

namespace detail {

/// Writes the timeline of a candidate: of each step that takes time its operation, unit, begin and
/// end; and the bytes in slots and activations over time. Times are counted in parts of what is
/// shown, which begins "from" before the end of the step before it: what that one hides.
inline void print_timeline(std::ostream& out, const zero::plan::Candidate& candidate,
                           const zero::plan::Machine& machine) {
  using namespace zero::plan;
  constexpr double parts = 20000;
  const Training& training = candidate.training;
  const std::size_t shown = std::min<std::size_t>(training.micro_steps, 2);
  const zero::Schedule schedule = training.schedule(shown);
  const Simulation step = simulate(training, machine, schedule);
  double begin = INFINITY, end = 0;
  for (const zero::Span& span : step.spans) {
    begin = std::min(begin, span.begin);
    end = std::max(end, span.end);
  }
  const double scale = parts / (end - begin);
  out << "{\"micro_steps\":" << shown << ",\"us\":" << json(end - begin)
      << ",\"from\":" << std::max(0L, std::lround((step.begin_us - begin) * scale))
      << ",\"period\":" << std::lround(step.step_us * scale) << ",\"steps\":[";
  const char* separator = "";
  for (std::size_t i = 0; i < step.spans.size(); ++i) {
    const zero::Span& span = step.spans[i];
    if (span.end <= span.begin) continue;
    const zero::Step& s = schedule.steps[i];
    const std::size_t unit = zero::computes(s.op) ? s.subject
                             : s.op == zero::Op::combine
                                 ? 0
                                 : std::size_t{schedule.model.group(s.subject).owner};
    out << separator << static_cast<int>(s.op) << ',' << unit << ','
        << std::lround((span.begin - begin) * scale) << ','
        << std::lround((span.end - begin) * scale);
    separator = ",";
  }
  out << "],\"memory\":[";
  const auto elements = [&](std::size_t g) {
    return static_cast<double>(
        padded_elements(training.model, g, schedule, training.bytes, training.mesh));
  };
  const Activations kept =
      activations(training.model.dims, training.sequences, training.attention, training.recompute);
  const auto curve = memory_over_time(
      schedule, step.spans,
      [&](std::size_t g) { return elements(g) * static_cast<double>(training.bytes.whole_weight); },
      [&](std::size_t g) {
        return elements(g) * static_cast<double>(training.bytes.whole_gradient);
      },
      [&](std::size_t u) { return kept.of_unit(u); },
      [&](std::size_t u) { return u >= 1 && u <= kept.layers ? kept.working : 0; });
  separator = "";
  double last = -1;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    if (i + 1 < curve.size() && curve[i + 1].us <= curve[i].us) continue;  // the last of an instant
    const double at = std::round((curve[i].us - begin) * scale);
    if (at == last) continue;
    last = at;
    out << separator << static_cast<long>(at) << ',' << std::lround(curve[i].bytes / 1e6);
    separator = ",";
  }
  out << "]}";
}

}  // namespace detail

/// Writes what the page draws, as a JSON object.
inline void print_page_data(std::ostream& out, const Options& options,
                            const zero::plan::Advice& advice) {
  using namespace zero::plan;
  const Question& q = options.question;
  // Where no batch was asked for, that of the best.
  const Candidate* best = advice.best();
  const std::size_t asked = best != nullptr ? best->training.sequences * best->training.micro_steps
                                            : std::max<std::size_t>(1, q.global_batch / q.devices);
  const PageAxes axes = page_axes(q, asked);
  out << "{\"model\":" << json(q.model.name) << ",\"parameters\":" << q.model.parameters()
      << ",\"context\":" << q.model.dims.context << ",\"device\":" << json(q.machine.device.name)
      << ",\"usable\":" << json(q.machine.usable_bytes()) << ",\"bytes\":" << json(q.bytes.name)
      << ",\"layers\":" << q.model.dims.layers
      << ",\"conclusion\":" << json(std::string_view(advice.conclusion));
  out << ",\"start\":{\"devices\":" << q.devices << ",\"batch\":" << asked
      << ",\"stage\":" << json(best == nullptr ? std::string_view("zero3") : best->stage) << '}';
  const auto print_axis = [&](const char* name, const std::vector<std::size_t>& values) {
    out << ",\"" << name << "\":[";
    for (std::size_t i = 0; i < values.size(); ++i) out << (i == 0 ? "" : ",") << values[i];
    out << ']';
  };
  print_axis("devices", axes.devices);
  print_axis("batches", axes.batches);
  out << ",\"stages\":[";
  for (std::size_t s = 0; s < std::size(known_stages); ++s) {
    out << (s == 0 ? "" : ",") << "{\"name\":" << json(known_stages[s].name)
        << ",\"meaning\":" << json(known_stages[s].meaning) << '}';
  }
  out << "],\n\"ops\":[";
  for (std::size_t op = 0; op < zero::op_count; ++op) {
    const zero::OpInfo& info = zero::op_table[op];
    const auto id = static_cast<zero::Op>(op);
    const zero::detail::TimelineColor& color = zero::detail::timeline_color(id);
    out << (op == 0 ? "" : ",") << "{\"name\":" << json(std::string_view(color.name))
        << ",\"op\":" << json(std::string_view(info.name))
        << ",\"color\":" << json(std::string_view(color.fill))
        << ",\"stream\":" << static_cast<int>(info.stream)
        << ",\"moves\":" << (zero::communicates(id) ? "true" : "false") << '}';
  }
  out << "],\n\"cells\":[";
  const char* separator = "\n";
  for (const std::size_t devices : axes.devices) {
    for (const NamedStage& stage : known_stages) {
      for (const std::size_t batch : axes.batches) {
        const Advice cell = advise_cell(q, stage.name, devices, batch);
        out << separator;
        separator = ",\n";
        if (cell.candidates.empty()) {
          out << "null";
          continue;
        }
        const Candidate& c = cell.candidates.front();
        out << "{\"answer\":" << json(c) << ",\"timeline\":";
        if (c.fits) {
          detail::print_timeline(out, c, q.machine);
        } else {
          out << "null";
        }
        out << '}';
      }
    }
  }
  out << "\n]}";
}

}  // namespace zero_plan
