// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Advice: which stages, meshes, depths and micro-batches fit, and which is fastest. May include
// plan/, policy/, schedule/.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>
#include <zero/plan/training.hpp>
#include <zero/policy/stages.hpp>

namespace zero::plan {

/// A stage that the planner tries.
struct NamedStage {
  std::string_view name, meaning;  // what it is called, and what it does
  StageValue stage{};              // the stage
};
namespace detail {
template <std::size_t Depth>
using Deep =
    Stage<ShardOptimizer<>, ShardGrads<>,
          ShardParams<ParamsOptions{.forward_prefetch = Depth, .backward_prefetch = Depth}>>;
}  // namespace detail
inline constexpr NamedStage known_stages[] = {
    {"ddp", "nothing is sharded", stage_value<Ddp>},
    {"zero1", "optimizer state is sharded", stage_value<Zero1>},
    {"zero2", "gradients too", stage_value<Zero2>},
    {"zero3", "parameters too, one unit ahead", stage_value<Zero3>},
    {"zero3-depth0", "no unit ahead", stage_value<detail::Deep<0>>},
    {"zero3-depth2", "two units ahead", stage_value<detail::Deep<2>>},
    {"hybrid", "zero3 within groups, which are replicas", stage_value<Hybrid>},
    {"hpz", "hybrid, but optimizer state over all ranks", stage_value<Hpz>},
};
constexpr const NamedStage* find_stage(std::string_view name) {
  for (const NamedStage& stage : known_stages) {
    if (stage.name == name) return &stage;
  }
  return nullptr;
}

constexpr const char* name_of(Recompute recompute) {
  return recompute == Recompute::none        ? "none"
         : recompute == Recompute::selective ? "selective"
                                             : "full";
}

/// What is asked: a model, so many devices, and a batch.
struct Question {
  ModelDescription model;        // what is trained
  Machine machine{};             // on what
  std::size_t devices = 1;       // how many
  std::size_t global_batch = 0;  // sequences a step; 0: whatever is fastest with one micro-step
  Accounting bytes = mixed_16;   // of a parameter
  Attention attention = Attention::flash;  // how it keeps activations
  std::string_view stage = "all";          // or the name of one
  bool recompute_all = true;               // tries all kinds of recomputation, or `recompute` only
  Recompute recompute = Recompute::none;   // what is recomputed
};

/// One way to run it.
struct Candidate {
  std::string_view stage;   // its name
  Training training;        // all that was chosen
  Prediction prediction{};  // what came of it
  bool fits = false;        // whether a device holds it
  std::string reason;       // a sentence
};

/// All that was tried.
struct Advice {
  std::vector<Candidate> candidates;  // those that fit first, by tokens a second; then by memory
  std::size_t fitting = 0;            // how many of them fit
  std::string conclusion;             // which one and why, or what is missing
  /// The fastest that fits, or null.
  const Candidate* best() const { return fitting == 0 ? nullptr : &candidates.front(); }
};

namespace detail {

inline std::string gigabytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GB", bytes / 1e9);
  return text;
}
inline std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * part);
  return text;
}

/// What a step of this candidate is bound by, or why it does not fit.
inline std::string reason_of(const Candidate& c, const Machine& machine) {
  const Prediction& p = c.prediction;
  if (!c.fits) {
    return "needs " + gigabytes(p.device_bytes() - machine.usable_bytes()) +
           " more: " + gigabytes(static_cast<double>(p.held.states())) + " of states, " +
           gigabytes(static_cast<double>(p.held.slots + p.held.staging)) + " of slots, " +
           gigabytes(p.activation_bytes) + " of activations";
  }
  const double exposed = p.exposed_seconds / p.step_seconds;
  const double slowed = p.slowed_seconds / p.step_seconds;
  const double host = p.idle_seconds / p.step_seconds - exposed;  // neither computes nor sends
  std::string text = gigabytes(machine.usable_bytes() - p.device_bytes()) + " free; ";
  if (host > 0.05) text += "waits " + percent(host) + " of the step for the host; ";
  if (exposed > 0.3) {
    text += "waits " + percent(exposed) + " of the step for communication";
  } else if (exposed + slowed > 0.05) {
    text +=
        "communication costs " + percent(exposed + slowed) + " (" + percent(exposed) + " exposed)";
  } else {
    text += host > 0.05 ? "communication is hidden" : "bound by compute";
  }
  text += "; sends " + gigabytes(static_cast<double>(p.sent.total()));
  if (c.training.recompute != Recompute::none) {
    text += std::string("; recomputes ") +
            (c.training.recompute == Recompute::full ? "each block" : "attention");
  }
  return text;
}

/// Sizes of the groups that a stage may shard over: all devices; or for stages with replicas nodes,
/// halves of a node, and several nodes.
inline std::vector<MeshShape> meshes_of(const Question& question, const StageValue& stage) {
  if (!stage.traits.replicates) return {{question.devices, 1}};
  std::vector<MeshShape> meshes;
  const std::size_t node = question.machine.devices_per_node;
  for (std::size_t shards = 2; shards < question.devices; shards *= 2) {
    const bool whole = shards <= node ? node % shards == 0 : shards % node == 0;
    if (whole && question.devices % shards == 0) {
      meshes.push_back({shards, question.devices / shards});
    }
  }
  return meshes;
}
/// Sequences of a rank in a micro-step: powers of two that divide its part of the batch, and that
/// part.
inline std::vector<std::size_t> micro_batches(const Question& question) {
  std::vector<std::size_t> sizes;
  const std::size_t rank = question.global_batch / question.devices;
  for (std::size_t size = 1; size <= (rank == 0 ? 64 : rank); size *= 2) {
    if (rank == 0 || rank % size == 0) sizes.push_back(size);
  }
  if (rank != 0 && sizes.back() != rank) sizes.push_back(rank);
  return sizes;
}

/// Whether `a` stands before `b`: what fits, then what is faster by more than about half a percent,
/// then what needs less memory.
inline bool before(const Candidate& a, const Candidate& b) {
  const auto speed = [](const Candidate& c) {
    return c.fits ? static_cast<int>(200 * std::log(c.prediction.tokens_per_second)) : 0;
  };
  if (a.fits != b.fits) return a.fits;
  if (speed(a) != speed(b)) return speed(a) > speed(b);
  return a.prediction.device_bytes() < b.prediction.device_bytes();
}
/// The smallest number of devices, of `devices` times powers of two, on which one of the candidates
/// would fit if it were sharded over all of them; 0 if there is none up to a million.
inline std::size_t devices_that_fit(const std::vector<Candidate>& candidates, double room,
                                    std::size_t devices) {
  for (std::size_t n = 2 * devices; n <= (std::size_t{1} << 20); n *= 2) {
    for (const Candidate& candidate : candidates) {
      Training training = candidate.training;
      training.mesh.shards = n / training.mesh.replicas;
      if (predict_bytes(training).device_bytes() <= room) return n;
    }
  }
  return 0;
}

}  // namespace detail

/// All ways to run it, in the order of their merit. Of each stage, mesh and recomputation the
/// micro-batch that is fastest is kept, or the smallest if none fits.
///
/// Pre:     the batch is a multiple of the devices; the stage is "all" or a known one.
inline Advice advise(const Question& question) {
  Advice advice;
  const double room = question.machine.usable_bytes();
  for (const NamedStage& named : known_stages) {
    if (question.stage != "all" && question.stage != named.name) continue;
    for (const MeshShape mesh : detail::meshes_of(question, named.stage)) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        if (!question.recompute_all && recompute != question.recompute) continue;
        // With flash attention there are no scores to compute again.
        if (question.recompute_all && recompute == Recompute::selective &&
            question.attention == Attention::flash) {
          continue;
        }
        Candidate best{named.name, {.model = question.model}, {}, false, {}};
        for (const std::size_t sequences : detail::micro_batches(question)) {
          Candidate c = best;
          const std::size_t rank = question.global_batch / question.devices;
          c.training = {.model = question.model,
                        .stage = named.stage,
                        .mesh = mesh,
                        .sequences = sequences,
                        .micro_steps = rank == 0 ? 1 : rank / sequences,
                        .attention = question.attention,
                        .recompute = recompute,
                        .bytes = question.bytes};
          c.prediction = predict_bytes(c.training);
          c.fits = c.prediction.device_bytes() <= room;
          if (!c.fits) {
            if (sequences == 1) best = c;
            break;  // a larger one needs more
          }
          c.prediction = predict(c.training, question.machine);
          if (!best.fits || c.prediction.tokens_per_second > best.prediction.tokens_per_second) {
            best = c;
          }
        }
        best.reason = detail::reason_of(best, question.machine);
        advice.candidates.push_back(best);
      }
    }
  }
  std::stable_sort(advice.candidates.begin(), advice.candidates.end(), detail::before);
  for (const Candidate& c : advice.candidates) advice.fitting += c.fits;
  if (advice.candidates.empty()) {
    advice.conclusion =
        "There is no way to try: a stage with replicas needs a number of devices "
        "that a group of 2, 4, 8, ... divides.";
  } else if (const Candidate* best = advice.best()) {
    advice.conclusion = std::string(best->stage) + " is the fastest of " +
                        std::to_string(advice.fitting) + " that fit: " + best->reason + ".";
  } else {
    const Candidate& least = advice.candidates.front();
    advice.conclusion =
        "Nothing fits: " + std::string(least.stage) + " comes nearest, but " + least.reason + ". ";
    const std::size_t enough = detail::devices_that_fit(advice.candidates, room, question.devices);
    advice.conclusion +=
        enough == 0 ? "No number of devices helps: take devices with more memory, a smaller model "
                      "or a shorter context."
                    : "It fits on " + std::to_string(enough) + " devices.";
  }
  return advice;
}

}  // namespace zero::plan
