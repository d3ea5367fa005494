// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The answer as a table and as JSON. Includes zero/plan and headers beside it.
#pragma once

#include <cmath>
#include <cstdio>
#include <ostream>
#include <string>
#include <string_view>
#include <zero/plan/checkpoint_interval.hpp>

#include "options.hpp"

namespace zero_plan {

/// Formats as printf does, up to 400 characters.
template <class... Values>
std::string format(const char* how, Values... values) {
  char text[400];
  std::snprintf(text, sizeof text, how, values...);
  return text;
}

inline zero::plan::CheckpointPlan checkpoint_plan(const Options& options) {
  return zero::plan::checkpoint_plan(options.question.devices, options.failures_hours * 3600,
                                     options.save_seconds);
}

inline void print_table(std::ostream& out, const Options& options,
                        const zero::plan::Advice& advice) {
  using namespace zero::plan;
  const Question& q = options.question;
  out << q.model.name << ": " << q.model.parameters() << " parameters, context "
      << q.model.dims.context << "; " << q.devices << " x " << q.machine.device.name << " ("
      << format("%.1f", q.machine.usable_bytes() / 1e9) << " GB usable each), "
      << q.machine.devices_per_node << " a node, "
      << format("%.0f", q.machine.network_bandwidth() * 8e-9) << " Gb/s a node; " << q.bytes.name
      << ", kernels at " << format("%.1f", 100 * q.machine.efficiency) << " % of the peak\n\n";
  const char* const header = "%-13s %9s %-9s %9s %6s %6s %6s %6s %7s %9s %5s  %s\n";
  out << format(header, "stage", "mesh", "recompute", "batch", "states", "slots", "activ.", "total",
                "step", "tokens/s", "MFU", "why");
  out << format(header, "", "repl x sh", "", "seq x mic", "GB", "GB", "GB", "GB", "s", "a device",
                "%", "");
  std::size_t rows = 0;
  for (const Candidate& c : advice.candidates) {
    if (++rows > options.top) break;
    const Prediction& p = c.prediction;
    const auto gb = [](double bytes) { return format("%.1f", bytes / 1e9); };
    out << format(header, std::string(c.stage).c_str(),
                  format("%zu x %zu", c.training.mesh.replicas, c.training.mesh.shards).c_str(),
                  name_of(c.training.recompute),
                  format("%zu x %zu", c.training.sequences, c.training.micro_steps).c_str(),
                  gb(static_cast<double>(p.held.states())).c_str(),
                  gb(static_cast<double>(p.held.slots + p.held.staging)).c_str(),
                  gb(p.activation_bytes).c_str(), gb(p.device_bytes()).c_str(),
                  c.fits ? format("%.3f", p.step_seconds).c_str() : "-",
                  c.fits ? format("%.0f", p.tokens_per_second).c_str() : "-",
                  c.fits ? format("%.1f", 100 * p.model_utilization).c_str() : "-",
                  c.reason.c_str());
  }
  if (advice.candidates.size() > options.top) {
    out << "... and " << advice.candidates.size() - options.top << " more (--top)\n";
  }
  out << '\n' << advice.conclusion << '\n';
  if (options.failures_hours > 0) {
    const CheckpointPlan plan = checkpoint_plan(options);
    out << "Save every " << format("%.0f", plan.interval_seconds) << " s: failures and saves then "
        << "cost " << format("%.1f", 100 * plan.lost_share) << " % of the time.\n";
  }
}

/// A JSON string, with quotes.
inline std::string json(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}
/// A JSON number.
inline std::string json(double value) { return std::isfinite(value) ? format("%.9g", value) : "0"; }
inline std::string json(std::size_t value) { return std::to_string(value); }

inline std::string json(const zero::plan::Candidate& c) {
  const zero::plan::Prediction& p = c.prediction;
  std::string out = "{\"stage\": " + json(c.stage);
  const auto add = [&](const char* name, const std::string& value) {
    out += std::string(", \"") + name + "\": " + value;
  };
  add("fits", c.fits ? "true" : "false");
  add("shards", json(c.training.mesh.shards));
  add("replicas", json(c.training.mesh.replicas));
  add("recompute", json(std::string_view(name_of(c.training.recompute))));
  add("sequences", json(c.training.sequences));
  add("micro_steps", json(c.training.micro_steps));
  add("weights_bytes", json(p.held.weights));
  add("gradients_bytes", json(p.held.gradients));
  add("optimizer_bytes", json(p.held.optimizer));
  add("slots_bytes", json(p.held.slots));
  add("staging_bytes", json(p.held.staging));
  add("activation_bytes", json(p.activation_bytes));
  add("device_bytes", json(p.device_bytes()));
  if (c.fits) {
    add("step_seconds", json(p.step_seconds));
    add("tokens_per_second_per_device", json(p.tokens_per_second));
    add("model_flops_utilization", json(p.model_utilization));
    add("hardware_flops_utilization", json(p.hardware_utilization));
    add("compute_seconds", json(p.compute_seconds));
    add("slowed_seconds", json(p.slowed_seconds));
    add("exposed_communication_seconds", json(p.exposed_seconds));
    add("idle_seconds", json(p.idle_seconds));
  }
  add("gather_bytes", json(p.sent.gather));
  add("reduce_scatter_bytes", json(p.sent.reduce_scatter));
  add("all_reduce_bytes", json(p.sent.all_reduce));
  add("gather_replicas_bytes", json(p.sent.gather_replicas));
  add("reduce_scatter_replicas_bytes", json(p.sent.reduce_scatter_replicas));
  add("all_reduce_replicas_bytes", json(p.sent.all_reduce_replicas));
  add("reason", json(std::string_view(c.reason)));
  return out + "}";
}

inline void print_json(std::ostream& out, const Options& options,
                       const zero::plan::Advice& advice) {
  const zero::plan::Question& q = options.question;
  out << "{\"model\": " << json(q.model.name) << ", \"parameters\": " << q.model.parameters()
      << ", \"context\": " << q.model.dims.context
      << ", \"device\": " << json(q.machine.device.name) << ", \"devices\": " << q.devices
      << ", \"usable_bytes\": " << json(q.machine.usable_bytes())
      << ", \"devices_per_node\": " << q.machine.devices_per_node
      << ", \"network_bytes_per_second\": " << json(q.machine.network_bandwidth())
      << ", \"efficiency\": " << json(q.machine.efficiency) << ", \"attention\": "
      << json(std::string_view(q.attention == zero::plan::Attention::flash ? "flash" : "plain"))
      << ", \"bytes\": " << json(q.bytes.name) << ", \"fitting\": " << advice.fitting
      << ",\n \"conclusion\": " << json(std::string_view(advice.conclusion));
  if (options.failures_hours > 0) {
    const zero::plan::CheckpointPlan plan = checkpoint_plan(options);
    out << ",\n \"checkpoint_interval_seconds\": " << json(plan.interval_seconds)
        << ", \"lost_share\": " << json(plan.lost_share);
  }
  out << ",\n \"candidates\": [";
  const char* separator = "\n  ";
  for (const zero::plan::Candidate& c : advice.candidates) {
    out << separator << json(c);
    separator = ",\n  ";
  }
  out << "\n ]}\n";
}

}  // namespace zero_plan
