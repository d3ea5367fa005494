// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Draws when the steps of a schedule ran: one lane a stream. May include schedule/.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

#include <zero/schedule/print.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero {

namespace detail {

struct TimelineColor {
  Op op;
  const char* fill;
  const char* name;
};
/// Distinct for colour-blind readers as well. Source: Okabe and Ito, Color Universal Design, 2008.
inline constexpr TimelineColor timeline_colors[] = {
    {Op::forward, "#56b4e9", "forward"},
    {Op::backward, "#0072b2", "backward"},
    {Op::gather, "#e69f00", "gather"},
    {Op::reduce_scatter, "#009e73", "reduce-scatter"},
    {Op::all_reduce, "#009e73", "all-reduce"},
    {Op::all_reduce_replicas, "#f0e442", "all-reduce over replicas"},
    {Op::square_norm, "#999999", "norm"},
    {Op::combine, "#d55e00", "combine (norm, agreement)"},
    {Op::update, "#cc79a7", "update"},
};
constexpr const TimelineColor* timeline_color(Op op) {
  for (const TimelineColor& color : timeline_colors) {
    if (color.op == op) return &color;
  }
  return nullptr;
}
/// A round distance between ticks that gives about ten of them.
inline double tick_distance(double length) {
  const double rough = std::max(length, 1e-9) / 10;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  return power * (rough / power < 1.5 ? 1 : rough / power < 3.5 ? 2 : rough / power < 7.5 ? 5 : 10);
}
inline std::string escape_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += c;
  }
  return out;
}

}  // namespace detail

/// Writes an SVG picture of one execution: lanes are streams, boxes are steps, time runs to the right.
///
/// Units:   spans [step of the schedule] in microseconds; a step without duration is not drawn.
///          `unit_name(group or unit)` gives the text in a box.
template <class UnitName>
void print_timeline_svg(std::ostream& out, const Schedule& schedule, std::span<const Span> spans,
                        std::string_view title, UnitName unit_name) {
  constexpr double left = 92, width = 1180, top = 62, lane = 46, box = 34;
  double begin = 1e300, end = -1e300;
  bool used[stream_count] = {};
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].end <= spans[i].begin) continue;
    begin = std::min(begin, spans[i].begin);
    end = std::max(end, spans[i].end);
    used[static_cast<std::size_t>(schedule.steps[i].stream)] = true;
  }
  if (end <= begin) begin = 0, end = 1;
  const double scale = width / (end - begin);
  double lane_of[stream_count] = {}, bottom = top;
  for (std::size_t s = 0; s < stream_count; ++s) {
    lane_of[s] = bottom;
    if (used[s]) bottom += lane;
  }
  const auto print = [&](const char* format, auto... arguments) {
    std::array<char, 512> line{};
    std::snprintf(line.data(), line.size(), format, arguments...);
    out << line.data();
  };
  print("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
        "font-family=\"Helvetica,Arial,sans-serif\" font-size=\"12\">\n",
        left + width + 20, bottom + 78);
  out << "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n<text x=\"12\" y=\"28\" "
         "font-size=\"17\" font-weight=\"bold\">" << detail::escape_xml(title) << "</text>\n";
  for (std::size_t s = 0; s < stream_count; ++s) {
    if (!used[s]) continue;
    print("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#f4f4f4\"/>\n", left,
          lane_of[s], width, lane - 6);
    print("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", left - 10,
          lane_of[s] + lane / 2, name_of(static_cast<StreamId>(s)));
  }
  const double tick = detail::tick_distance(end - begin);
  for (double t = 0; t <= end - begin; t += tick) {
    const double x = left + t * scale;
    print("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#cccccc\"/>", x, top - 6, x,
          bottom);
    print("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"#555555\">%g</text>\n", x,
          bottom + 16, t / 1000);
  }
  print("<text x=\"%.1f\" y=\"%.1f\" fill=\"#555555\">time in ms</text>\n", left, bottom + 34);
  bool in_legend[op_count] = {};
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Step& step = schedule.steps[i];
    const detail::TimelineColor* color = detail::timeline_color(step.op);
    if (color == nullptr || spans[i].end <= spans[i].begin) continue;
    in_legend[static_cast<std::size_t>(step.op)] = true;
    const double x = left + (spans[i].begin - begin) * scale;
    const double w = std::max((spans[i].end - spans[i].begin) * scale, 0.8);
    const double y = lane_of[static_cast<std::size_t>(step.stream)] + (lane - 6 - box) / 2;
    const std::string name = step.op == Op::combine ? "all" : std::string(unit_name(step));
    print("<g><rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\" "
          "stroke=\"#ffffff\" stroke-width=\"0.6\"/>", x, y, w, box, color->fill);
    print("<title>%zu: %s %s, %.3f ms</title>", i, color->name, detail::escape_xml(name).c_str(),
          (spans[i].end - spans[i].begin) / 1000);
    if (w > 6.8 * static_cast<double>(name.size()) + 4) {
      const bool dark = step.op == Op::backward;
      print("<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"%s\">%s</text>", x + w / 2,
            y + box / 2 + 4, dark ? "#ffffff" : "#000000", detail::escape_xml(name).c_str());
    }
    out << "</g>\n";
  }
  double x = left;
  for (const detail::TimelineColor& color : detail::timeline_colors) {
    if (!in_legend[static_cast<std::size_t>(color.op)]) continue;
    print("<rect x=\"%.1f\" y=\"%.1f\" width=\"13\" height=\"13\" fill=\"%s\"/>", x, bottom + 48,
          color.fill);
    print("<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", x + 18, bottom + 59, color.name);
    x += 40 + 6.6 * static_cast<double>(std::string_view(color.name).size());
  }
  out << "</svg>\n";
}

}  // namespace zero
