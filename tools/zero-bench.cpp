// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// zero-bench: how near does zero come to what this machine can do? It runs the benchmarks of the
// project, each beside its limit, and describes the machine to zero-plan.
#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <zero/comm/launch/place.hpp>
#include <zero/plan/training.hpp>
#include <zero/policy/stages.hpp>

#include "examples/plan/machine_file.hpp"
#include "zero-bench/options.hpp"
#include "zero-bench/picture.hpp"
#include "zero-bench/rows.hpp"

#ifdef ZERO_BENCH_MPI
#include <zero/mpi.hpp>
#endif
#ifdef ZERO_BENCH_NCCL
#include <cuda_runtime_api.h>
#endif

namespace zero_bench {

/// Benchmarks of one kind, and what a row of them says.
struct Suite {
  Part part;
  std::string filter;  // of Google Benchmark's names
  std::function<Row(const Measured&)> row;
};

std::string without_backend(const std::string& name) {
  for (const char* backend : {"mpi_", "nccl_"})
    if (name.starts_with(backend)) return name.substr(std::string_view(backend).size());
  return name;
}
Row collective_row(const Measured& m) {
  const double bytes = m.argument("bytes"), seconds = m["best_us"] * 1e-6;
  const std::string name = without_backend(m.stem());
  const std::size_t bf16 = name.find("_bf16");
  const double rate = bytes / seconds * 1e-9, ratio = m["best_ratio"];
  if (bytes == 0) return {name, seconds, seconds * 1e6, "us"};
  return {name.substr(0, bf16) + (bf16 == name.npos ? " fp32, " : " bf16, ") + size(bytes),
          seconds,
          rate,
          "GB/s",
          rate / ratio,
          ratio};
}
Row kernel_row(const Measured& m) {
  std::string name = m.stem();
  for (std::size_t at; (at = name.find("zero::")) != name.npos;) name.erase(at, 6);
  return {name, m.seconds, m["GB/s"], "GB/s", m["GB/s"] / m["of_modify"], m["of_modify"]};
}
Row host_row(const Measured& m) {
  const bool module = m["ns/step"] > 0;
  const double ns = module ? m["ns/step"] : m["ns_per_step"];
  const double ratio = module ? 1 / m["of_bare_loop"] : m["ratio"];
  const std::string name = m.stem();
  return {name == "one_rank<zero::Zero3, Silent>" ? "a module, nothing sent"
          : name == "dispatch_run"                ? "dispatch alone"
          : name == "build_and_verify"            ? "build and verify"
                                                  : name,
          ns * 1e-9,
          ns,
          "ns",
          ns * ratio,
          ratio};
}
Row overlap_row(const Measured& m) {
  return {format("%.0f units ahead", m.argument("prefetch")),
          m["step_ms"] * 1e-3,
          m["step_ms"],
          "ms",
          m["limit_ms"],
          m["ratio"]};
}
Row tax_row(const Measured& m) {
  const bool inline_run = m.name.find("inline") != m.name.npos;
  return {inline_run ? "Zero3, streams run at once" : "Zero3, asynchronous streams",
          m["zero3_ms"] * 1e-3,
          m["zero3_ms"],
          "ms",
          m["ddp_ms"],
          1 / m["tax"]};
}
Row machine_row(const Measured& m) {
  const std::string name = m.stem();
  if (name == "compute_rate") return {"multiply and add", m.seconds, m["Gflop/s"], "Gf/s"};
  if (name == "memory_rate") return {"copy", m.seconds, m["GB/s"], "GB/s"};
  return {"lost beside a copy", m.seconds, 100 * m["lost"], "%"};
}

/// What the processes that mpirun started measure together.
Suite mpi_suite(const Options& options, std::size_t processes) {
  return {{"mpi", "Collectives of " + std::to_string(processes) + " processes over MPI",
           "MPI's own, in turn"},
          options.quick ? "^mpi_.*/bytes:4096/" : "^mpi_",
          collective_row};
}
/// What GPUs there are measure together: nothing without one, or if it was built without NCCL.
std::vector<Suite> with_gpus(std::vector<Suite> all, [[maybe_unused]] const Options& options) {
#ifdef ZERO_BENCH_NCCL
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) return all;
  all.push_back({{"nccl", "Collectives of " + std::to_string(gpus) + " GPUs over NCCL",
                  "NCCL's own calls, in turn"},
                 options.quick ? "^nccl_.*/bytes:4096/" : "^nccl_",
                 collective_row});
#endif
  return all;
}
std::vector<Suite> suites(const Options& options) {
  const std::string n = std::to_string(options.ranks);
  const std::string collectives =
      options.quick ? "^(all_gather|reduce_scatter)(_bf16)?/bytes:(4096|1048576)"
                    : "^(((all_gather|reduce_scatter|all_reduce)(_bf16)?/bytes:[1-9][0-9]*)|"
                      "barrier/bytes:0)";
  const std::string kernels = options.quick
                                  ? "^(update<zero::AdamW, zero::bf16>|cast<float, zero::bf16>)/"
                                  : "^(update|cast|square_norm).*/manual_time";
  return {
      {{"collectives", "Collectives of " + n + " threads",
        "memcpy of as many bytes, or a plain loop that sums as many"},
       collectives + "/ranks:" + n + "/",
       collective_row},
      {{"kernels", "Updates and casts of one rank", "a loop in place over as many bytes"},
       kernels,
       kernel_row},
      {{"host", "What a step of a schedule costs the host",
        "a bare loop over the steps, or a copy of them"},
       "^(one_rank<zero::Zero3, Silent>/64|(dispatch_run|build_and_verify)/units:96/"
       "micro_steps:1)/",
       host_row},
      {{"overlap", "Step with transport as slow as compute", "the same step with a free transport"},
       "^overlap/",
       overlap_row},
      {{"tax", "Sharding tax of a GPT, 2 ranks", "a step of Ddp, in turn"},
       "^sharding_tax/",
       tax_row},
      {{"machine", "Of each of " + n + " ranks at once", "-"},
       "^(compute_rate|memory_rate|contention)/ranks:" + n + "/",
       machine_row}};
}

/// What the rows say of the machine.
zero::plan::Machine machine_of(const std::vector<Part>& parts, const Options& options) {
  const auto row = [&](const std::string& name) -> const Row& {
    for (const Part& part : parts)
      for (const Row& one : part.rows)
        if (one.name == name) return one;
    throw UsageError("'" + name + "' was not measured, so that the machine is not known.");
  };
  const auto ranks = static_cast<double>(options.ranks);
  zero::plan::Machine machine;
  machine.devices_per_node = machine.nics_per_node = options.ranks;
  machine.device.peak_flops = row("multiply and add").value * 1e9;
  machine.device.memory_bandwidth = row("copy").value * 1e9;
  machine.device.memory_bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                                static_cast<double>(sysconf(_SC_PAGE_SIZE)) / ranks;
  const Row& large = row(options.quick ? "all_gather fp32, 1 MiB" : "all_gather fp32, 64 MiB");
  machine.device.link_bandwidth = large.value * 1e9 * (ranks - 1) / ranks;
  machine.latency_us = row("all_gather fp32, 4 KiB").seconds * 1e6;
  machine.memory_efficiency = 1;
  machine.contention = std::clamp(row("lost beside a copy").value / 100, 0.0, 0.99);
  machine.skew_us = 0;
  machine.host_us_per_step = row("a module, nothing sent").value * 1e-3;
  // As fast as the GPT's kernels are where nothing is sharded.
  const TaxModel& tax = options.tax;
  const auto of = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  const zero::plan::ModelDescription model("a GPT", {.layers = of(tax.layers),
                                                     .width = of(tax.width),
                                                     .heads = of(tax.heads),
                                                     .vocabulary = 256,
                                                     .context = of(tax.context)});
  const zero::plan::Training ddp{.model = model,
                                 .stage = zero::stage_value<zero::Ddp>,
                                 .mesh = {2, 1},
                                 .sequences = of(tax.sequences),
                                 .attention = zero::plan::Attention::plain,
                                 .bytes = zero::plan::fp32_16};
  const double step = row("Zero3, asynchronous streams").limit * 1e-3;
  return calibrated(ddp, machine, ddp.tokens_per_rank() / step);
}

std::ofstream open(const std::string& path) {
  std::ofstream file;
  if (path.empty()) return file;
  file.open(path);
  if (!file) throw UsageError("'" + path + "' cannot be written.");
  return file;
}
void close(std::ofstream& file, const std::string& path) {
  if (!path.empty() && !file.flush()) throw UsageError("'" + path + "' cannot be written.");
}

void run(const Options& options, std::vector<Suite> all, bool shows) {
  std::ofstream json_file = open(options.json), svg = open(options.svg),
                machine_file = open(options.machine);
  std::string flag = "--benchmark_min_time=" + format("%g", options.seconds);
  std::string program = "zero-bench";
  char* arguments[] = {program.data(), flag.data(), nullptr};
  int count = 2;
  benchmark::Initialize(&count, arguments);
  tax_model = options.tax;
  std::vector<Part> parts;
  for (Suite& suite : all) {
    if (!options.only.empty() && options.only != suite.part.name) continue;
    if (shows) print_header(stdout, suite.part);
    Reporter reporter(suite.part, suite.row, shows);
    benchmark::RunSpecifiedBenchmarks(&reporter, suite.filter);
    if (!reporter.error().empty()) throw std::runtime_error(reporter.error());
    parts.push_back(suite.part);
  }
  if (!shows) return;
  if (options.quick) std::puts("\n--quick shows that it runs: leave it out to measure.");
  if (!options.json.empty()) print_json(json_file, parts, options.ranks, options.quick);
  if (!options.svg.empty())
    print_picture(svg, parts, "zero-bench: how near to the limits of this machine");
  if (!options.machine.empty()) {
    zero_plan::print_machine(machine_file, "this machine", machine_of(parts, options));
    std::printf(
        "\nzero-plan --machine %s --bytes fp32-16 --devices %zu ... plans for this machine\n",
        options.machine.c_str(), options.ranks);
  }
  close(json_file, options.json);
  close(svg, options.svg);
  close(machine_file, options.machine);
}

}  // namespace zero_bench

int main(int argc, char** argv) try {
  const zero_bench::Options options = zero_bench::parse_options(argc, argv);
  if (options.help) {
    std::cout << zero_bench::usage();
    return 0;
  }
  const std::optional<zero::LaunchPlace> place = zero::find_launch_place();
  if (!place || place->size == 1) {
    zero_bench::run(options, with_gpus(zero_bench::suites(options), options), true);
    return 0;
  }
#ifdef ZERO_BENCH_MPI
  if (!options.machine.empty() || !options.only.empty())
    throw zero_bench::UsageError(
        "Under mpirun --machine and --only measure nothing: leave them out.");
  const zero::MpiSession mpi;
  zero_bench::Options here = options;
  here.ranks = place->size;
  if (place->rank != 0) here.json = here.svg = "";
  zero_bench::run(here, {zero_bench::mpi_suite(here, place->size)}, place->rank == 0);
  return 0;
#else
  throw zero_bench::UsageError("It was built without MPI: run it as one process.");
#endif
} catch (const zero_bench::UsageError& error) {
  std::cerr << "zero-bench: " << error.what() << '\n';
  return 2;
} catch (const std::exception& error) {
  std::cerr << "zero-bench: " << error.what() << '\n';
  return 1;
}
