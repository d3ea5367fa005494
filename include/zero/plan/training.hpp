// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Training: a model, a stage and a mesh; how much memory and time a step of it takes on a machine.
// May include plan/, policy/, schedule/.
#pragma once
#include <algorithm>
#include <cstddef>
#include <zero/plan/activations.hpp>
#include <zero/plan/collectives.hpp>
#include <zero/plan/memory.hpp>
#include <zero/plan/simulate.hpp>

namespace zero::plan {

/// What is run.
struct Training {
  ModelDescription model;                  // what is trained
  StageValue stage{};                      // by what it is sharded
  MeshShape mesh{};                        // over what
  std::size_t sequences = 1;               // of a rank, in a micro-step
  std::size_t micro_steps = 1;             // before each update
  Attention attention = Attention::flash;  // how it keeps activations
  Recompute recompute = Recompute::none;   // what is recomputed
  Accounting bytes = mixed_16;             // of a parameter

  double tokens_per_rank() const {  // in a step
    return static_cast<double>(sequences) * static_cast<double>(model.dims.context) *
           static_cast<double>(micro_steps);
  }
  /// Of a step of so many micro-steps.
  Schedule schedule(std::size_t steps) const {
    return make_schedule(stage, model.shape(), training(model.groups(), steps));
  }
};

/// What a step takes. Times are those of the simulator; memory is exact but for activations.
struct Prediction {
  double step_seconds = 0, tokens_per_second = 0;  // tokens of one device
  double model_utilization = 0;                    // MFU: 6 a parameter, and attention, of the peak
  double hardware_utilization = 0;                 // HFU: with what is computed again
  double compute_seconds = 0, slowed_seconds = 0;  // what computing takes, and by how much longer
  double exposed_seconds = 0, idle_seconds = 0;    // only communicating; not computing
  Held held{};                                     // bytes of a rank
  Sent sent{};                                     // bytes of a rank in a step
  double activation_bytes = 0;                     // an estimate
  /// All that a device holds.
  double device_bytes() const { return static_cast<double>(held.total()) + activation_bytes; }
};

/// How long each step of a schedule takes alone on a machine, in microseconds.
class StepDuration {
 public:
  /// Of a training on a machine.
  StepDuration(const Training& training, const Machine& machine, const Schedule& schedule)
      : training_(training), machine_(machine), schedule_(schedule) {
    const MeshShape mesh = training.mesh;
    shard_group_ = group_of(machine, mesh.shards, 1);
    replica_group_ = group_of(machine, mesh.replicas, mesh.shards);
    world_ = group_of(machine, mesh.devices(), 1);
    tokens_ = static_cast<double>(training.sequences * training.model.dims.context);
  }

  /// How long a step takes alone, in microseconds.
  double operator()(const Step& step) const {
    const Accounting& bytes = training_.bytes;
    switch (step.op) {
      case Op::forward: return flops_us(training_.model.forward_flops(step.subject));
      case Op::backward: return flops_us(backward_flops(step.subject));
      case Op::gather: return gather_us(machine_, shard_group_, whole(step) * gathered(bytes));
      case Op::reduce_scatter:
        return gather_us(machine_, shard_group_, whole(step) * reduced(bytes));
      case Op::all_reduce:
        return all_reduce_us(machine_, shard_group_, whole(step) * reduced(bytes));
      case Op::all_reduce_replicas:
        return all_reduce_us(machine_, replica_group_, shard(step) * reduced(bytes));
      case Op::reduce_scatter_replicas:
        return gather_us(machine_, replica_group_, shard(step) * reduced(bytes));
      case Op::gather_replicas:
        return gather_us(machine_, replica_group_, shard(step) * gathered(bytes));
      case Op::square_norm: return memory_us(shard(step) * static_cast<double>(bytes.gradient));
      case Op::combine: return all_reduce_us(machine_, world_, 1024);
      case Op::update: {
        // Reads and writes the state and the weight, reads the gradient.
        const auto touched =
            static_cast<double>(2 * bytes.optimizer + 2 * bytes.weight + bytes.gradient);
        return memory_us(updated(step) * touched);
      }
      default: return 0;
    }
  }
  /// Operations of the backward of unit u on one token, with what is computed again.
  double backward_flops(std::size_t u) const {
    const ModelDescription& model = training_.model;
    const bool block = u >= 1 && u <= model.dims.layers;
    return 2 * model.forward_flops(u) +
           (block ? recomputed_flops(model, training_.attention, training_.recompute) : 0);
  }

 private:
  static double gathered(const Accounting& bytes) { return static_cast<double>(bytes.gathered); }
  static double reduced(const Accounting& bytes) { return static_cast<double>(bytes.reduced); }
  double whole(const Step& step) const {
    return static_cast<double>(
        padded_elements(training_.model, step.subject, schedule_, training_.bytes, training_.mesh));
  }
  double shard(const Step& step) const {
    const bool sharded = schedule_.traits.shards_optimizer;
    return whole(step) / static_cast<double>(sharded ? training_.mesh.shards : 1);
  }
  double updated(const Step& step) const {
    const bool parts = schedule_.traits.shards_replicas;
    return shard(step) / static_cast<double>(parts ? training_.mesh.replicas : 1);
  }
  double flops_us(double flops_per_token) const {
    return flops_per_token * tokens_ / (machine_.device.peak_flops * machine_.efficiency) * 1e6;
  }
  double memory_us(double bytes) const {
    return bytes / (machine_.device.memory_bandwidth * machine_.memory_efficiency) * 1e6;
  }

  const Training& training_;
  const Machine& machine_;
  const Schedule& schedule_;
  Group shard_group_{}, replica_group_{}, world_{};
  double tokens_ = 0;
};

/// Simulates one step with the schedule that a module of this stage would run.
inline Simulation simulate(const Training& training, const Machine& machine,
                           const Schedule& schedule) {
  return simulate(schedule, StepDuration(training, machine, schedule),
                  {machine.contention, machine.host_us_per_step});
}

namespace detail {
/// Micro-steps of which each one more is like the one before.
inline constexpr std::size_t distinct_micro_steps = 3;

inline Sent bytes_sent_in(const Training& training) {
  const auto sent_in = [&](std::size_t steps) {
    return bytes_sent(training.model, training.schedule(steps), training.bytes, training.mesh);
  };
  if (training.micro_steps <= distinct_micro_steps) return sent_in(training.micro_steps);
  Sent sent = sent_in(distinct_micro_steps);
  const Sent fewer = sent_in(distinct_micro_steps - 1);
  const std::size_t more = training.micro_steps - distinct_micro_steps;
  for (std::size_t Sent::*part :
       {&Sent::gather, &Sent::reduce_scatter, &Sent::all_reduce, &Sent::gather_replicas,
        &Sent::reduce_scatter_replicas, &Sent::all_reduce_replicas}) {
    sent.*part += more * (sent.*part - fewer.*part);
  }
  return sent;
}
}  // namespace detail

/// What a rank holds and sends: of the schedule, and an estimate of activations. Asks for no time.
inline Prediction predict_bytes(const Training& training) {
  Prediction out;
  // More than two micro-steps need no more buffers.
  const Schedule schedule = training.schedule(training.micro_steps < 2 ? 1 : 2);
  out.held = bytes_held(training.model, schedule, training.bytes, training.mesh);
  out.sent = detail::bytes_sent_in(training);
  out.activation_bytes =
      activations(training.model.dims, training.sequences, training.attention, training.recompute)
          .peak();
  return out;
}

/// Memory and time of a step. Past three micro-steps each one more takes as long as the third.
inline Prediction predict(const Training& training, const Machine& machine) {
  Prediction out = predict_bytes(training);
  const std::size_t steps = std::min(training.micro_steps, detail::distinct_micro_steps);
  const Simulation whole = simulate(training, machine, training.schedule(steps));
  Simulation one;  // of one more micro-step
  if (training.micro_steps > steps) {
    const Simulation before = simulate(training, machine, training.schedule(steps - 1));
    for (double Simulation::*part : {&Simulation::step_us, &Simulation::compute_us,
                                     &Simulation::slowed_us, &Simulation::exposed_us}) {
      one.*part = whole.*part - before.*part;
    }
  }
  const auto more = static_cast<double>(training.micro_steps - steps);
  const auto seconds = [&](double Simulation::*member) {
    return (whole.*member + more * (one.*member)) * 1e-6;
  };
  out.step_seconds = seconds(&Simulation::step_us);
  out.compute_seconds = seconds(&Simulation::compute_us);
  out.slowed_seconds = seconds(&Simulation::slowed_us);
  out.exposed_seconds = seconds(&Simulation::exposed_us);
  out.idle_seconds = out.step_seconds - out.compute_seconds - out.slowed_seconds;
  out.tokens_per_second = training.tokens_per_rank() / out.step_seconds;
  const double peak = machine.device.peak_flops;
  out.model_utilization = training.model.flops_per_token() * out.tokens_per_second / peak;
  const double again = static_cast<double>(training.model.dims.layers) *
                       recomputed_flops(training.model, training.attention, training.recompute);
  out.hardware_utilization =
      (training.model.flops_per_token() + again) * out.tokens_per_second / peak;
  return out;
}

/// The machine whose kernels are as efficient as one measured row says: its `efficiency` is such
/// that `training` is predicted to reach so many tokens a second on each device. Everything else of
/// it stays. If not even free compute would be as slow or fast, the efficiency is the nearest of
/// 0.01 and 1.
inline Machine calibrated(const Training& training, Machine machine, double tokens_per_second) {
  double low = 0.01, high = 1;
  for (int i = 0; i < 30; ++i) {
    machine.efficiency = (low + high) / 2;
    (predict(training, machine).tokens_per_second < tokens_per_second ? low : high) =
        machine.efficiency;
  }
  return machine;
}

}  // namespace zero::plan
