// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Draws when the steps of a schedule ran: one lane a stream. May include plan/ and schedule/.
#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <zero/plan/detail/svg.hpp>
#include <zero/schedule/print.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero {

namespace detail {

struct TimelineColor {
  Op op;
  const char* fill;
  const char* name;
  bool dark = false;  // light text is read better on it
};
/// Distinct for colour-blind readers as well; vermilion is left for what is exposed. Source: Okabe
/// and Ito, Color Universal Design, 2008, with a brown and a wine red.
inline constexpr TimelineColor timeline_colors[] = {
    {Op::forward, "#56b4e9", "forward"},
    {Op::backward, "#0072b2", "backward", true},
    {Op::gather, "#e69f00", "gather"},
    {Op::reduce_scatter, "#009e73", "reduce-scatter", true},
    {Op::all_reduce, "#cc79a7", "all-reduce"},
    {Op::all_reduce_replicas, "#882255", "all-reduce over replicas", true},
    {Op::reduce_scatter_replicas, "#f0e442", "reduce-scatter over replicas"},
    {Op::gather_replicas, "#8a5a00", "gather over replicas", true},
    {Op::square_norm, "#aaaaaa", "norm"},
    {Op::combine, "#cccccc", "combine: norm and agreement"},
    {Op::update, "#777777", "update", true},
    {Op::fetch_state, "#88ccee", "fetch of state"},
    {Op::store_state, "#332288", "store of state", true},
    {Op::release, "#bbbbbb", "release"},
};
constexpr const TimelineColor& timeline_color(Op op) {
  for (const TimelineColor& color : timeline_colors) {
    if (color.op == op) return color;
  }
  return timeline_colors[std::size(timeline_colors) - 1];
}

/// One picture: where time and streams are in it, and the layers that it is painted in.
template <class UnitName>
class Timeline {
 public:
  /// `length` is how much time the picture is wide, if that is more than the spans take.
  Timeline(std::ostream& out, const Schedule& schedule, std::span<const Span> spans,
           UnitName unit_name, double length = 0)
      : svg_(out), schedule_(schedule), spans_(spans), unit_name_(unit_name) {
    begin_ = std::numeric_limits<double>::infinity();
    end_ = -begin_;
    for (std::size_t i = 0; i < spans.size(); ++i) {
      if (!drawn(i)) continue;
      begin_ = std::min(begin_, spans[i].begin);
      end_ = std::max(end_, spans[i].end);
      busy_[stream(i)] += spans[i].end - spans[i].begin;
    }
    if (end_ <= begin_) begin_ = 0, end_ = 1;
    end_ = std::max(end_, begin_ + length);
    for (std::size_t s = 0; s < stream_count; ++s) {
      lanes_[s] = bottom_;
      if (busy_[s] > 0) bottom_ += box + 8;
    }
    for (std::size_t i = 0; i < spans.size(); ++i) {
      if (drawn(i) && x(spans[i].end) - x(spans[i].begin) > 0.8) {
        in_legend_[static_cast<std::size_t>(schedule.steps[i].op)] = true;
      }
    }
    legend([](double, double, const TimelineColor*) {});
  }

  double height() const { return bottom_ + 72 + legend_height_; }
  static void open(std::ostream& out, double height) {
    out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 "
        << decimal(left + wide + 30, 0) << ' ' << decimal(height, 0)
        << "\" font-family=\"Helvetica,Arial,sans-serif\" font-size=\"13\">\n"
           "<defs><pattern id=\"idle\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" "
           "patternTransform=\"rotate(45)\"><rect width=\"7\" height=\"7\" fill=\"#f6f6f6\"/>"
           "<rect width=\"1.4\" height=\"7\" fill=\"#dddddd\"/></pattern></defs>\n"
           "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  }
  void draw(std::string_view title) {
    svg_.text(14, 28, "font-size=\"18\" font-weight=\"bold\"", title);
    svg_.text(
        14, 49, "fill=\"#555555\"",
        "A lane is a stream, a box a step of the schedule with the unit that it acts on. Waiting "
        "for other ranks is part of a collective's box.");
    svg_.out() << '\n';
    lanes();
    axis();
    phases();
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      if (drawn(i)) step(i);
    }
    legend([this](double at, double row, const TimelineColor* color) {
      const std::string fill = color == nullptr ? "url(#idle)\" stroke=\"#cccccc" : color->fill;
      this->svg_.rect(at, this->bottom_ + 38 + row, 15, 15, "fill=\"" + fill + '"');
      this->svg_.text(at + 21, this->bottom_ + 50 + row, "fill=\"#000000\"",
                      color == nullptr ? "idle" : color->name);
      this->svg_.out() << '\n';
    });
  }

 private:
  static constexpr double left = 112, wide = 1200, top = 96, box = 52;

  bool drawn(std::size_t i) const { return spans_[i].end > spans_[i].begin; }
  std::size_t stream(std::size_t i) const {
    return static_cast<std::size_t>(schedule_.steps[i].stream);
  }
  double x(double time) const { return left + (time - begin_) * wide / (end_ - begin_); }

  void lanes() {
    for (std::size_t s = 0; s < stream_count; ++s) {
      if (busy_[s] <= 0) continue;
      svg_.rect(left, lanes_[s], wide, box, "fill=\"url(#idle)\"");
      svg_.text(left - 12, lanes_[s] + box / 2 - 2, "text-anchor=\"end\" font-weight=\"bold\"",
                name_of(static_cast<StreamId>(s)));
      svg_.text(left - 12, lanes_[s] + box / 2 + 14, "text-anchor=\"end\" fill=\"#555555\"",
                decimal(100 * busy_[s] / (end_ - begin_), 0) + " % busy");
      svg_.out() << '\n';
    }
  }
  void axis() {
    const double tick = tick_distance(end_ - begin_);
    for (double t = 0; t <= end_ - begin_; t += tick) {
      svg_.line(x(begin_ + t), top - 6, x(begin_ + t), bottom_, "stroke=\"#bbbbbb\"");
      char text[32];
      const auto end = std::to_chars(text, text + sizeof text, static_cast<float>(t / 1000));
      svg_.text(x(begin_ + t), bottom_ + 16, "text-anchor=\"middle\" fill=\"#555555\"",
                std::string(text, end.ptr) + " ms");
      svg_.out() << '\n';
    }
  }
  /// Names what the compute stream is at, above it.
  void phases() {
    std::size_t first = spans_.size(), last = first;
    const auto close = [&] {
      if (first == spans_.size()) return;
      const double from = x(spans_[first].begin), to = x(spans_[last].end);
      const std::string_view name = timeline_color(schedule_.steps[first].op).name;
      svg_.line(from, top - 8, to, top - 8, "stroke=\"#333333\" stroke-width=\"2\"");
      if (SvgWriter::width(name, 13) < to - from) {
        svg_.text((from + to) / 2, top - 14, "text-anchor=\"middle\"", name);
      }
      svg_.out() << '\n';
      first = spans_.size();
    };
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      const Op op = schedule_.steps[i].op;
      if (!drawn(i) || !(computes(op) || op == Op::update)) continue;
      if (first != spans_.size() && schedule_.steps[first].op != op) close();
      if (first == spans_.size()) first = i;
      last = i;
    }
    close();
  }
  void step(std::size_t i) {
    const Step& step = schedule_.steps[i];
    const TimelineColor& color = timeline_color(step.op);
    const double at = x(spans_[i].begin), w = std::max(x(spans_[i].end) - at, 0.8);
    const double y = lanes_[stream(i)];
    const std::string name = unit_of(step);
    svg_.out() << "<g>";
    svg_.rect(at, y, w, box,
              std::string("fill=\"") + color.fill + (w > 3 ? "\" stroke=\"#ffffff\"" : "\""));
    svg_.out() << "<title>" << i << ": " << color.name << ' ' << escape_xml(name) << ", "
               << decimal((spans_[i].end - spans_[i].begin) / 1000, 3) << " ms</title>";
    const std::string style =
        std::string("text-anchor=\"middle\" pointer-events=\"none\" fill=\"") +
        (color.dark ? "#ffffff\"" : "#000000\"");
    if (SvgWriter::width(name, 13) + 8 < w) {
      svg_.text(at + w / 2, y + box / 2 + 4.5, style, name);
    } else if (w > 12 && SvgWriter::width(name, 11) < box) {
      svg_.upright(at + w / 2 + 4, y + box / 2, style + " font-size=\"11\"", name);
    }
    svg_.out() << "</g>\n";
  }
  std::string unit_of(const Step& step) const {
    if (step.op == Op::combine) return "all";
    return std::string(unit_name_(
        std::size_t{computes(step.op) ? step.subject : schedule_.model.group(step.subject).owner}));
  }
  /// Calls entry(x, y of its row, colour or null for idle) for all that the picture shows, as many
  /// in a row as it is wide.
  template <class Entry>
  void legend(Entry entry) {
    double at = left, row = 0;
    const auto place = [&](const TimelineColor* color, std::string_view name) {
      const double space = 48 + SvgWriter::width(name, 12);
      if (at + space > left + wide + 20) at = left, row += 22;
      entry(at, row, color);
      at += space;
    };
    for (const TimelineColor& color : timeline_colors) {
      if (in_legend_[static_cast<std::size_t>(color.op)]) place(&color, color.name);
    }
    place(nullptr, "idle");
    legend_height_ = row;
  }

  SvgWriter svg_;
  const Schedule& schedule_;
  std::span<const Span> spans_;
  UnitName unit_name_;
  double begin_, end_, bottom_ = top, legend_height_ = 0;
  double lanes_[stream_count] = {}, busy_[stream_count] = {};
  bool in_legend_[op_count] = {};
};

}  // namespace detail

/// One execution as it is to be drawn; spans are [step of the schedule] in microseconds.
struct TimelinePicture {
  std::string_view title;       // above the picture
  std::span<const Span> spans;  // by step
};

/// Writes executions of one schedule as an SVG picture, one above the other on the same scale:
/// lanes are streams, boxes are steps, time runs to the right.
///
/// Units:   a step without duration is not drawn; unit_name(u) names unit u, and groups that it
///          owns.
template <class UnitName>
void print_timelines_svg(std::ostream& out, const Schedule& schedule,
                         std::span<const TimelinePicture> pictures, UnitName unit_name) {
  using Drawing = detail::Timeline<UnitName>;
  double length = 0, height = 0;
  for (const TimelinePicture& picture : pictures) {
    double begin = std::numeric_limits<double>::infinity(), end = -begin;
    for (const Span& span : picture.spans) {
      if (span.end <= span.begin) continue;
      begin = std::min(begin, span.begin);
      end = std::max(end, span.end);
    }
    length = std::max(length, end - begin);
    height += Drawing(out, schedule, picture.spans, unit_name).height();
  }
  Drawing::open(out, height);
  height = 0;
  for (const TimelinePicture& picture : pictures) {
    Drawing drawing(out, schedule, picture.spans, unit_name, length);
    out << "<g transform=\"translate(0 " << detail::decimal(height, 0) << ")\">";
    drawing.draw(picture.title);
    out << "</g>\n";
    height += drawing.height();
  }
  out << "</svg>\n";
}
/// Writes one execution as an SVG picture.
template <class UnitName>
void print_timeline_svg(std::ostream& out, const Schedule& schedule, std::span<const Span> spans,
                        std::string_view title, UnitName unit_name) {
  const TimelinePicture picture{title, spans};
  print_timelines_svg(out, schedule, std::span(&picture, 1), unit_name);
}

}  // namespace zero
