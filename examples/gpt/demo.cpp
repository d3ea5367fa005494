// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trains the same GPT in all four stages and compares losses, bytes and times; draws one step.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>
#include <vector>
#include <zero/plan/timeline_svg.hpp>
#include <zero/schedule/print.hpp>

#include "options.hpp"
#include "program.hpp"
#include "report.hpp"
#include "text.hpp"
#include "trainer.hpp"

namespace {

/// A file in the folder of results.
///
/// Errors:  UsageError if it cannot be written.
std::ofstream open(const gpt::Options& options, const char* name,
                   std::ios::openmode mode = std::ios::trunc) {
  std::error_code error;
  std::filesystem::create_directories(options.output, error);
  const std::filesystem::path path = std::filesystem::path(options.output) / name;
  std::ofstream out(path, std::ios::out | mode);
  if (!out)
    throw gpt::UsageError(path.string() +
                          " cannot be written: choose another folder with --output FOLDER.");
  return out;
}
void close(std::ofstream& out, const char* name) {
  out.close();
  if (!out)
    throw std::runtime_error(std::string(name) + " could not be written: is the disk full?");
}

std::vector<gpt::Training> train_all(const gpt::Options& o, const std::string& text) {
  const bool late = o.micro_steps > 1;
  std::vector<gpt::Training> all;
  all.push_back(gpt::train<zero::Ddp>("Ddp", o, text, 0, stdout));
  all.push_back(gpt::train<zero::Zero1>("Zero1", o, text, 0, stdout));
  all.push_back(late ? gpt::train<gpt::LateZero2>("Zero2", o, text, 0, stdout)
                     : gpt::train<zero::Zero2>("Zero2", o, text, 0, stdout));
  all.push_back(late ? gpt::train<gpt::LateZero3>("Zero3", o, text, o.sample, stdout)
                     : gpt::train<zero::Zero3>("Zero3", o, text, o.sample, stdout));
  return all;
}

/// Trains a few steps of Zero3 with asynchronous streams and writes when each step of the schedule
/// ran on rank 0: all of them as a trace, the quickest one as a picture.
///
/// Few ranks and one sequence, so that each rank has a core and communication is seen beside
/// computing.
void draw_step(gpt::Options o, const std::string& text, std::ofstream& svg, std::ofstream& trace) {
  o.ranks = std::min<gpt::Size>(o.ranks, 2);
  o.sequences = 1;
  o.micro_steps = 1;
  o.streams = zero::StreamMode::asynchronous;
  constexpr gpt::Size steps = 40;
  zero::run_threads(static_cast<std::size_t>(o.ranks), [&](zero::ThreadCommunicator& comm) {
    zero::ModuleOptions how = gpt::module_options(o);
    how.record_spans = true;
    gpt::Trainer<zero::Zero3> trainer(o, text, comm, how);
    auto& module = trainer.module();
    zero::List<zero::Span> all, quickest;
    const auto length = [](const zero::List<zero::Span>& spans) {
      return std::max_element(spans.begin(), spans.end(),
                              [](auto a, auto b) { return a.end < b.end; })
                 ->end -
             std::min_element(spans.begin(), spans.end(), [](auto a, auto b) {
               return a.begin < b.begin;
             })->begin;
    };
    for (gpt::Size number = 0; number < steps; ++number) {
      trainer.step(number);
      const zero::List<zero::Span>& spans = module.spans();
      all.insert(all.end(), spans.begin(), spans.end());
      if (quickest.empty() || length(spans) < length(quickest)) quickest = spans;
    }
    if (comm.rank() != 0) return;
    const auto name = [&](std::size_t unit) { return module.parameters().units()[unit].name; };
    zero::print_timeline_svg(
        svg, module.schedule(), quickest,
        "One training step of Zero3, measured on rank 0 of " + std::to_string(o.ranks), name);
    const double begin = all.front().begin;
    for (zero::Span& span : all) span.begin -= begin, span.end -= begin;
    zero::print_trace(trace, module.schedule(), all, name);
  });
}

int demo(int argc, char** argv) {
  const gpt::Options options = gpt::parse_options(argc, argv, gpt::Program::demo);
  if (options.help)
    return std::fputs(gpt::usage("gpt_demo", gpt::Program::demo).c_str(), stdout) < 0 ? 1 : 0;
  const std::string text = gpt::read_text(options.text, options.context + 1);
  // An older report stays whole until there is a new one.
  for (const char* name : {"report.json", "timeline.svg", "trace.json"})
    open(options, name, std::ios::app);
  gpt::use_one_thread_for_math();

  const std::vector<gpt::Training> trainings = train_all(options, text);
  std::ofstream svg = open(options, "timeline.svg"), trace = open(options, "trace.json"),
                report = open(options, "report.json");
  draw_step(options, text, svg, trace);
  gpt::print_json(report, options.ranks, trainings);
  close(report, "report.json");
  close(svg, "timeline.svg");
  close(trace, "trace.json");

  if (options.sample > 0)
    std::printf("\nThe model writes:\n%s\n", gpt::printable(trainings.back().sample).c_str());
  std::printf(
      "\n%s/report.json holds all figures, timeline.svg a step, trace.json is for "
      "ui.perfetto.dev.\n\n%zu parameters on %lld rank%s; bytes of a rank as "
      "predicted=measured:\n\n",
      options.output.c_str(), trainings.front().parameters, static_cast<long long>(options.ranks),
      options.ranks == 1 ? "" : "s");
  gpt::print_table(stdout, trainings);
  if (options.micro_steps > 1)
    std::printf(
        "\nZero2 and Zero3 reduce gradients in the last micro-step only "
        "(every_micro_step = false), as Ddp and Zero1 do.\n");
  const std::string complaint = gpt::complaint(trainings);
  if (!complaint.empty()) throw std::runtime_error(complaint);
  std::printf(
      "\nThe losses of all %zu steps are the same bits in the four stages; every byte "
      "figure is as predicted.\n",
      trainings.front().losses.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return gpt::run_program("gpt_demo", [&] { return demo(argc, argv); });
}
