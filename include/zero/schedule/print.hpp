// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A schedule as text, as a DOT graph and as a trace that Perfetto opens. Includes schedule/ only.
#pragma once

#include <span>
#include <string>
#include <zero/schedule/cost.hpp>
#include <zero/schedule/schedule.hpp>

namespace zero {

namespace detail {
inline std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}
/// A string of JSON, with its quotes.
inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}
/// "P/[3]": where an operand is; a slash stands for a shard.
inline std::string place(const Access& access) {
  constexpr const char* names[space_count] = {"P/", "P", "G", "G/", "O", "A", "F", "C", "D", "S"};
  return std::string(names[static_cast<std::size_t>(access.space)]) + '[' +
         std::to_string(access.index) + ']';
}
inline std::string line(const Schedule& schedule, std::size_t i) {
  const Step& step = schedule.steps[i];
  const std::string number = std::to_string(i);
  std::string text(number.size() < 5 ? 5 - number.size() : 0, ' ');
  text += number + "  " + padded(name_of(step.stream), 9) + "  " +
          padded(std::string(info(step.op).name) + ' ' + std::to_string(step.subject), 24) + " m" +
          std::to_string(step.micro_step) + ' ';
  for (const Access& access : step) {
    text += access.mode == Mode::read ? "  " : access.mode == Mode::write ? " =" : " +=";
    text += place(access);
  }
  for (const std::uint32_t wait : step.waits) {
    if (wait != no_wait) text += "  <- " + std::to_string(wait) + (wait < i ? "" : "'");
  }
  return text + (step.signals ? "  *\n" : "\n");
}
}  // namespace detail

/// One line a step: number, stream, operation and subject, micro-step, operands (= overwrites,
/// += changes), waits (' means of the previous execution), and * if an event is recorded.
template <class Out>
void print(Out& out, const Schedule& schedule) {
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) out << detail::line(schedule, i);
}

/// Solid edges are waits, dashed ones waits for the previous execution, grey ones stream order.
template <class Out>
void print_dot(Out& out, const Schedule& schedule) {
  out << "digraph schedule {\n  rankdir=LR; node [shape=box];\n";
  std::size_t last[stream_count] = {};
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    const auto stream = static_cast<std::size_t>(step.stream);
    const std::string self = "s" + std::to_string(i);
    out << "  " + self + " [label=\"" + info(step.op).name + ' ' + std::to_string(step.subject) +
               "\" colorscheme=set14 color=" + std::to_string(stream + 1) + "];\n";
    if (last[stream] != 0) {
      out << "  s" + std::to_string(last[stream] - 1) + " -> " + self + " [color=grey];\n";
    }
    last[stream] = i + 1;
    for (const std::uint32_t wait : step.waits) {
      if (wait == no_wait) continue;
      out << "  s" + std::to_string(wait) + " -> " + self +
                 (wait < i ? ";\n" : " [style=dashed constraint=false];\n");
    }
  }
  out << "}\n";
}

/// The trace events of `spans`, which are predicted (timeline) or measured: one for each step, for
/// one or more executions in a row. `unit_name(u)` names unit u; a group is named by its owner.
template <class Out, class UnitName>
void print_trace(Out& out, const Schedule& schedule, std::span<const Span> spans,
                 UnitName unit_name) {
  out << "[";
  for (std::size_t t = 0; t < stream_count; ++t) {
    out << std::string(t == 0 ? "\n" : ",\n") + R"({"name":"thread_name","ph":"M","pid":0,"tid":)" +
               std::to_string(t) + R"(,"args":{"name":")" + name_of(static_cast<StreamId>(t)) +
               "\"}}";
  }
  const std::size_t n = schedule.steps.size();
  for (std::size_t i = 0; i < spans.size() && n != 0; ++i) {
    const Step& step = schedule.steps[i % n];
    std::string name = info(step.op).name;
    if (step.op != Op::combine) {
      const Index unit =
          computes(step.op) ? step.subject : schedule.model.group(step.subject).owner;
      name += ' ' + std::string(unit_name(std::size_t{unit}));
    }
    out << ",\n{\"name\":" + detail::quoted(name) + R"(,"ph":"X","pid":0,"tid":)" +
               std::to_string(static_cast<int>(step.stream)) +
               ",\"ts\":" + std::to_string(spans[i].begin) +
               ",\"dur\":" + std::to_string(spans[i].end - spans[i].begin) +
               ",\"args\":{\"step\":" + std::to_string(i % n) +
               ",\"micro_step\":" + std::to_string(step.micro_step) + "}}";
  }
  out << "\n]\n";
}
/// The same with the units numbered.
template <class Out>
void print_trace(Out& out, const Schedule& schedule, std::span<const Span> spans) {
  print_trace(out, schedule, spans, [](std::size_t unit) { return std::to_string(unit); });
}

}  // namespace zero
