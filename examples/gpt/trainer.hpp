// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trains the GPT in any stage: one rank's loop over any communicator, and a whole training over
// ranks that are threads.
// Includes zero/ and headers beside it.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include <zero/zero.hpp>

#include "model.hpp"
#include "options.hpp"
#include "program.hpp"
#include "progress.hpp"
#include "text.hpp"
#include "widen.hpp"

namespace gpt {

// With several micro-steps Zero2 and Zero3 reduce in each, Ddp and Zero1 in the last one: other
// sums, other bits. These keep whole gradients until the last one too.
using LateGrads = zero::ShardGrads<zero::GradsOptions{.slots = 2, .every_micro_step = false}>;
using LateZero2 = zero::Stage<zero::ShardOptimizer<>, LateGrads>;
using LateZero3 = zero::Stage<zero::ShardOptimizer<>, LateGrads, zero::ShardParams<>>;

/// The model's units in the order in which they run.
inline auto make_model(const Config& c) {
  return zero::model(zero::unit<Embedding>("embed", c),
                     zero::units<Block>("block", static_cast<std::size_t>(c.layers), c),
                     zero::unit<Head>("head", c));
}

inline zero::AdamW make_optimizer(const Options& o) {
  return {.learning_rate = [o](std::int64_t step) { return o.learning_rate_at(step); },
          .weight_decay = 0.1f};
}

inline zero::ModuleOptions module_options(const Options& o) {
  return {.streams = o.streams,
          .seed = static_cast<std::uint64_t>(o.seed),
          .max_micro_steps = static_cast<std::size_t>(o.micro_steps)};
}

/// One rank: a sharded model, the rank's part of the batches, and what the passes write.
///
/// All calls are collective.
template <class StageType, class T = float, class Comm = zero::ThreadCommunicator>
class Trainer {
  using Module = decltype(zero::shard<StageType, T>(make_model(Config{}), std::declval<Comm&>(),
                                                    zero::AdamW{}));

 public:
  Trainer(const Options& options, const std::string& text, Comm& comm,
          const zero::ModuleOptions& how)
      : options_(options),
        config_(options.config()),
        text_(text),
        // Losses have a communicator of their own, so that the module's counts bytes of its own.
        comm_(comm.split(0, static_cast<int>(comm.rank()))),
        module_(zero::shard<StageType, T>(make_model(config_), comm, make_optimizer(options), how)),
        batch_(options.sequences, options.context),
        activations_(config_, options.sequences),
        one_sequence_(config_, 1),
        wide_(std::is_same_v<T, float> ? 0 : static_cast<std::size_t>(largest_unit(config_))) {
    module_.initialize([&](const zero::TensorInfo& tensor, std::size_t element) {
      return initial_value(tensor.name, element, static_cast<std::uint64_t>(options.seed), config_);
    });
  }

  Module& module() { return module_; }

  /// Trains step `number` (from 0). Returns the mean loss in nats per byte over all ranks and
  /// micro-steps, the same bits on all ranks.
  ///
  /// Errors:  Interrupted on all ranks if one of them was; std::runtime_error if the step was
  ///          skipped, since some gradient was not finite.
  double step(Size number) {
    const Size micro_steps = options_.micro_steps;
    auto step = module_.begin_step({.micro_steps = static_cast<std::size_t>(micro_steps)});
    double sum = 0;
    for (Size micro_step = 0; micro_step < micro_steps; ++micro_step) {
      batch_.fill(text_, {static_cast<std::uint64_t>(options_.seed), number, micro_step,
                          static_cast<Size>(comm_.rank())});
      forward(step, batch_.inputs.data(), activations_);
      sum += loss(config_, batch_.targets.data(), 1.0f / static_cast<float>(micro_steps),
                  activations_);
      backward(step, batch_.inputs.data(), activations_);
    }
    const zero::StepResult result = step.finish({.max_norm = 1.0});
    if (result.skipped())
      throw std::runtime_error("Step " + std::to_string(number + 1) +
                               " was skipped, as a gradient is not finite: choose a smaller "
                               "--learning-rate.");
    std::array<double, 2> sums{sum / static_cast<double>(micro_steps), interrupted ? 1.0 : 0.0};
    comm_.all_reduce(sums.data(), sums.size(), {.operation = "mean of losses"});
    if (sums[1] > 0)
      throw Interrupted("Interrupted after step " + std::to_string(number + 1) + ".");
    return sums[0] / static_cast<double>(comm_.size());
  }

  /// `count` bytes that the model writes, on rank 0; the other ranks only give their shards.
  std::string sample(Size count) {
    std::string written = "\n";
    std::vector<std::uint8_t> window(static_cast<std::size_t>(config_.context), 0);
    for (Size i = 0; i < count; ++i) {
      const Size length = std::min(static_cast<Size>(written.size()), config_.context);
      std::copy(written.end() - length, written.end(), window.begin());
      auto pass = module_.evaluate();
      if (comm_.rank() != 0) {
        for (auto unit : pass.forward()) (void)unit;
        continue;
      }
      forward(pass, window.data(), one_sequence_);
      const std::uint64_t bits =
          mix(static_cast<std::uint64_t>(options_.seed), static_cast<std::uint64_t>(i));
      const float uniform = static_cast<float>(bits >> 40) * 0x1p-24f;
      written += static_cast<char>(
          draw_byte(one_sequence_.logits + (length - 1) * byte_values, byte_values, 0.7f, uniform));
    }
    return written.substr(1);
  }

 private:
  /// A pass of a training step or of an evaluation, over as many sequences as `a` has room for.
  template <class Pass>
  void forward(Pass& pass, const std::uint8_t* bytes, Activations<float>& a) {
    for (auto unit : pass.forward()) {
      if (unit.index() == 0) {
        embedding_forward(config_, widen(config_, unit.template weights<Embedding>(), wide_.data()),
                          bytes, a);
      } else if (unit.index() <= a.blocks.size()) {
        block_forward(config_, widen(config_, unit.template weights<Block>(), wide_.data()),
                      unit.index() - 1, a);
      } else {
        head_forward(config_, widen(config_, unit.template weights<Head>(), wide_.data()), a);
      }
    }
  }
  template <class Step>
  void backward(Step& step, const std::uint8_t* bytes, Activations<float>& a) {
    for (auto unit : step.backward()) {
      if (unit.index() == 0) {
        embedding_backward(config_, unit.template gradients<Embedding>(), bytes, a);
      } else if (unit.index() <= a.blocks.size()) {
        block_backward(config_, widen(config_, unit.template weights<Block>(), wide_.data()),
                       unit.template gradients<Block>(), unit.index() - 1, a);
      } else {
        head_backward(config_, widen(config_, unit.template weights<Head>(), wide_.data()),
                      unit.template gradients<Head>(), a);
      }
    }
  }

  Options options_;
  Config config_;
  const std::string& text_;
  Comm comm_;
  Module module_;
  Batch batch_;
  Activations<float> activations_, one_sequence_;
  std::vector<float> wide_;
};

/// What a training left. Byte figures are a rank's: of the first rank whose figures differ from the
/// prediction, if there is one.
struct Training {
  std::string name;
  std::size_t parameters = 0;
  std::vector<double> losses;  // [step]
  double step_ms = 0;          // median
  zero::BytesHeld predicted_held, held;
  zero::BytesSent predicted_sent, sent;  // in one step
  std::string sample;

  bool as_predicted() const { return predicted_held == held && predicted_sent == sent; }
};

/// Trains as one rank of `comm` in one stage; rank 0 measures, and shows the progress on `out`.
template <class StageType, class T = float, class Comm>
Training train_rank(const char* name, const Options& options, const std::string& text,
                    Size sample_bytes, Comm& comm, std::FILE* out) {
  using Clock = std::chrono::steady_clock;
  std::optional<Progress> progress;
  if (comm.rank() == 0) {
    progress.emplace(out, name, options.steps,
                     options.ranks * options.micro_steps * options.sequences * options.context);
  }
  Trainer<StageType, T, Comm> trainer(options, text, comm, module_options(options));
  auto& module = trainer.module();
  Training result;
  result.name = name;
  std::vector<double> times;
  zero::Traffic before;
  for (Size number = 0; number < options.steps; ++number) {
    if (number + 1 == options.steps) {
      module.synchronize();
      module.compare_replicas();  // or else a first step does so
      before = module.sent();
    }
    const Clock::time_point begin = Clock::now();
    result.losses.push_back(trainer.step(number));
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    if (progress.has_value()) progress->update(number, result.losses.back());
  }
  module.synchronize();
  const zero::Traffic after = module.sent();
  result.sent = {after.all_gather - before.all_gather, after.reduce_scatter - before.reduce_scatter,
                 after.all_reduce - before.all_reduce};
  result.predicted_sent =
      module.predicted_bytes_sent(static_cast<std::size_t>(options.micro_steps));
  result.held = module.bytes_held();
  result.predicted_held = module.predicted_bytes_held();
  result.parameters = module.parameters().elements();
  result.sample = trainer.sample(sample_bytes);
  std::nth_element(times.begin(), times.begin() + options.steps / 2, times.end());
  result.step_ms = times[static_cast<std::size_t>(options.steps / 2)];
  return result;
}

/// Trains in one stage with one thread for each rank.
template <class StageType, class T = float>
Training train(const char* name, const Options& options, const std::string& text, Size sample_bytes,
               std::FILE* out) {
  const auto ranks = static_cast<std::size_t>(options.ranks);
  std::vector<Training> of_rank(ranks);
  zero::run_threads(ranks, [&](zero::ThreadCommunicator& comm) {
    of_rank[comm.rank()] = train_rank<StageType, T>(name, options, text, sample_bytes, comm, out);
  });
  const auto differing = std::find_if(of_rank.begin(), of_rank.end(),
                                      [](const Training& t) { return !t.as_predicted(); });
  Training result = differing == of_rank.end() ? of_rank.front() : *differing;
  result.sample = of_rank.front().sample;
  result.step_ms = of_rank.front().step_ms;
  return result;
}

}  // namespace gpt
