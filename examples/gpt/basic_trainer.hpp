// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trains the GPT as one rank, over any communicator, in any stage, with any Math. Includes zero/
// and headers beside it.
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

inline zero::AdamW make_optimizer(const Options& o) {
  return {.learning_rate = [o](std::int64_t step) { return o.learning_rate_at(step); },
          .weight_decay = 0.1f};
}

inline zero::ModuleOptions module_options(const Options& o) {
  return {.streams = o.streams,
          .seed = static_cast<std::uint64_t>(o.seed),
          .max_micro_steps = static_cast<std::size_t>(o.micro_steps)};
}

/// One rank: a sharded model, the rank's part of the batches, and what the passes write. A Module
/// takes the stage as a value, so that a program which offers all stages compiles it once.
///
/// All calls are collective.
template <class Math, class T, class Comm>
class BasicTrainer {
 public:
  using Module = zero::Module<decltype(make_model(Config{})), zero::AdamW, Comm, T>;

  /// `math` must outlive it.
  BasicTrainer(const zero::StageValue& stage, const Options& options, const std::string& text,
               Comm& comm, const zero::ModuleOptions& how, Math& math)
      : options_(options),
        config_(options.config()),
        text_(text),
        // Losses have a communicator of their own, so that the module's counts bytes of its own.
        comm_(comm.split(0, static_cast<int>(comm.rank()))),
        math_(math),
        batches_(static_cast<std::size_t>(options.micro_steps),
                 Batch(options.sequences, options.context)),
        inputs_(batches_.size() * batches_.front().inputs.size()),
        targets_(inputs_.size()),
        loss_(1),
        window_(static_cast<std::size_t>(options.context)),
        activations_(config_, options.sequences),
        one_sequence_(config_, 1),
        wide_(std::is_same_v<T, float> ? 0 : static_cast<std::size_t>(largest_unit(config_))),
        module_(stage, make_model(config_), zero::mesh(comm), {make_optimizer(options)}, how) {
    module_.initialize([&](const zero::TensorInfo& tensor, std::size_t element) {
      return initial_value(tensor.name, element, static_cast<std::uint64_t>(options.seed), config_);
    });
  }

  Module& module() { return module_; }
  const Options& options() const { return options_; }

  /// Trains step `number` (from 0). Returns the mean loss in nats per byte over all ranks and
  /// micro-steps, the same bits on all ranks.
  ///
  /// Errors:  Interrupted on all ranks if one of them was; std::runtime_error if the step was
  ///          skipped, since some gradient was not finite.
  double step(Size number) {
    load_batches(number);
    auto step = module_.begin_step(step_options());
    passes(step);
    return mean_loss(number, step.finish(finish_options));
  }

  /// `count` bytes that the model writes, on rank 0; the other ranks only give their shards.
  std::string sample(Size count) {
    std::string written = "\n";
    std::vector<std::uint8_t> window(static_cast<std::size_t>(config_.context), 0);
    std::vector<float> logits(static_cast<std::size_t>(byte_values));
    for (Size i = 0; i < count; ++i) {
      const Size length = std::min(static_cast<Size>(written.size()), config_.context);
      std::copy(written.end() - length, written.end(), window.begin());
      auto pass = module_.evaluate();
      if (comm_.rank() != 0) {
        for (auto unit : pass.forward()) (void)unit;
        continue;
      }
      math_.upload(window_.data(), window.data(), config_.context);
      forward(pass, window_.data(), one_sequence_);
      module_.synchronize();  // which has a time limit
      math_.download(logits.data(), one_sequence_.logits + (length - 1) * byte_values, byte_values);
      const std::uint64_t bits =
          mix(static_cast<std::uint64_t>(options_.seed), static_cast<std::uint64_t>(i));
      const float uniform = static_cast<float>(bits >> 40) * 0x1p-24f;
      written += static_cast<char>(draw_byte(logits.data(), byte_values, 0.7f, uniform));
    }
    return written.substr(1);
  }

 protected:
  static constexpr zero::FinishOptions finish_options{.max_norm = 1.0};

  zero::StepOptions step_options() const {
    return {.micro_steps = static_cast<std::size_t>(options_.micro_steps)};
  }

  /// Brings the rank's part of all batches of a step to where passes() reads them.
  void load_batches(Size number) {
    for (std::size_t m = 0; m < batches_.size(); ++m) {
      Batch& batch = batches_[m];
      batch.fill(text_, {static_cast<std::uint64_t>(options_.seed), number, static_cast<Size>(m),
                         static_cast<Size>(comm_.rank())});
      const Size count = static_cast<Size>(batch.inputs.size());
      math_.upload(inputs_.data() + m * batch.inputs.size(), batch.inputs.data(), count);
      math_.upload(targets_.data() + m * batch.inputs.size(), batch.targets.data(), count);
    }
  }

  /// All passes of a step; the sum of the losses of its micro-steps stays where math_ keeps
  /// numbers.
  template <class Step>
  void passes(Step& step) {
    math_.clear(loss_.data(), 1);
    for (std::size_t m = 0; m < batches_.size(); ++m) {
      const std::size_t begin = m * batches_[m].inputs.size();
      forward(step, inputs_.data() + begin, activations_);
      add_loss(math_, config_, targets_.data() + begin,
               1.0f / static_cast<float>(options_.micro_steps), activations_, loss_.data());
      backward(step, inputs_.data() + begin, activations_);
    }
  }

  /// What a step that is over has cost: the loss comes to the host here, once per step.
  double mean_loss(Size number, const zero::StepResult& result) {
    if (result.skipped())
      throw std::runtime_error("Step " + std::to_string(number + 1) +
                               " was skipped, as a gradient is not finite: choose a smaller "
                               "--learning-rate.");
    double sum = 0;
    math_.download(&sum, loss_.data(), 1);
    std::array<double, 2> sums{sum / static_cast<double>(options_.micro_steps),
                               interrupted ? 1.0 : 0.0};
    comm_.all_reduce(sums.data(), sums.size(), {.operation = "mean of losses"});
    if (sums[1] > 0)
      throw Interrupted("Interrupted after step " + std::to_string(number + 1) + ".");
    return sums[0] / static_cast<double>(comm_.size());
  }

 private:
  template <class Element>
  using Memory = typename Math::template Memory<Element>;
  using Passes = Activations<float, Memory<float>>;

  /// A pass of a training step or of an evaluation, over as many sequences as `a` has room for.
  template <class Pass>
  void forward(Pass& pass, const std::uint8_t* bytes, Passes& a) {
    for (auto unit : pass.forward()) {
      if (unit.index() == 0) {
        embedding_forward(math_, config_, wide(unit.template weights<Embedding>()), bytes, a);
      } else if (unit.index() <= a.blocks.size()) {
        block_forward(math_, config_, wide(unit.template weights<Block>()), unit.index() - 1, a);
      } else {
        head_forward(math_, config_, wide(unit.template weights<Head>()), a);
      }
    }
  }
  template <class Step>
  void backward(Step& step, const std::uint8_t* bytes, Passes& a) {
    for (auto unit : step.backward()) {
      if (unit.index() == 0) {
        embedding_backward(math_, config_, unit.template gradients<Embedding>(), bytes, a);
      } else if (unit.index() <= a.blocks.size()) {
        block_backward(math_, config_, wide(unit.template weights<Block>()),
                       unit.template gradients<Block>(), unit.index() - 1, a);
      } else {
        head_backward(math_, config_, wide(unit.template weights<Head>()),
                      unit.template gradients<Head>(), a);
      }
    }
  }
  template <template <class> class Kind>
  Kind<float> wide(const Kind<T>& unit) {
    return widen(config_, unit, wide_.data());
  }

  Options options_;
  Config config_;
  const std::string& text_;
  Comm comm_;
  Math& math_;
  std::vector<Batch> batches_;             // [micro-step]
  Memory<std::uint8_t> inputs_, targets_;  // [micro-step, sequence, position]
  Memory<double> loss_;
  Memory<std::uint8_t> window_;
  Passes activations_, one_sequence_;
  std::vector<float> wide_;
  Module module_;
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

/// Trains all steps; rank 0 measures, and shows the progress on `out`.
template <class Trainer>
Training train_all_steps(Trainer& trainer, const char* name, Size sample_bytes, std::size_t rank,
                         std::FILE* out) {
  using Clock = std::chrono::steady_clock;
  const Options& options = trainer.options();
  std::optional<Progress> progress;
  if (rank == 0) {
    progress.emplace(out, name, options.steps,
                     options.ranks * options.micro_steps * options.sequences * options.context);
  }
  auto& trained = trainer.module();
  Training result;
  result.name = name;
  std::vector<double> times;
  trained.compare_replicas();  // or else the first step does so
  const zero::Traffic before = trained.sent();
  for (Size number = 0; number < options.steps; ++number) {
    const Clock::time_point begin = Clock::now();
    result.losses.push_back(trainer.step(number));
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    if (progress.has_value()) progress->update(number, result.losses.back());
    if (number != 0) continue;
    trained.synchronize();
    const zero::Traffic after = trained.sent();
    result.sent = {after.all_gather - before.all_gather,
                   after.reduce_scatter - before.reduce_scatter,
                   after.all_reduce - before.all_reduce};
  }
  trained.synchronize();
  result.predicted_sent =
      trained.predicted_bytes_sent(static_cast<std::size_t>(options.micro_steps));
  result.held = trained.bytes_held();
  result.predicted_held = trained.predicted_bytes_held();
  result.parameters = trained.parameters().elements();
  result.sample = trainer.sample(sample_bytes);
  std::nth_element(times.begin(), times.begin() + options.steps / 2, times.end());
  result.step_ms = times[static_cast<std::size_t>(options.steps / 2)];
  return result;
}

/// One of all ranks' results: see Training.
inline Training of_all_ranks(const std::vector<Training>& of_rank) {
  const auto differing = std::find_if(of_rank.begin(), of_rank.end(),
                                      [](const Training& t) { return !t.as_predicted(); });
  Training result = differing == of_rank.end() ? of_rank.front() : *differing;
  result.sample = of_rank.front().sample;
  result.step_ms = of_rank.front().step_ms;
  return result;
}

}  // namespace gpt
