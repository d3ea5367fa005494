// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trains the GPT on the host, in a stage that is proved at compile time, over ranks that are
// threads or others. Includes zero/ and headers beside it.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "basic_trainer.hpp"
#include "math.hpp"

namespace gpt {

// With several micro-steps Zero2 and Zero3 reduce in each, Ddp and Zero1 in the last one: other
// sums, other bits. These keep whole gradients until the last one too.
using LateGrads = zero::ShardGrads<zero::GradsOptions{.slots = 2, .every_micro_step = false}>;
using LateZero2 = zero::Stage<zero::ShardOptimizer<>, LateGrads>;
using LateZero3 = zero::Stage<zero::ShardOptimizer<>, LateGrads, zero::ShardParams<>>;

/// One rank that computes on the host.
template <class StageType, class T = float, class Comm = zero::ThreadCommunicator>
class Trainer : public BasicTrainer<HostMath, T, Comm> {
  static_assert(zero::proven<StageType>);

 public:
  Trainer(const Options& options, const std::string& text, Comm& comm,
          const zero::ModuleOptions& how)
      : BasicTrainer<HostMath, T, Comm>(zero::stage_value<StageType>, options, text, comm, how,
                                        math) {}

 private:
  static inline HostMath math;  // holds nothing
};

/// Trains as one rank of `comm` in one stage; rank 0 measures, and shows the progress on `out`.
template <class StageType, class T = float, class Comm>
Training train_rank(const char* name, const Options& options, const std::string& text,
                    Size sample_bytes, Comm& comm, std::FILE* out) {
  Trainer<StageType, T, Comm> trainer(options, text, comm, module_options(options));
  return train_all_steps(trainer, name, sample_bytes, comm.rank(), out);
}

/// Trains in one stage with one thread for each rank.
template <class StageType, class T = float>
Training train(const char* name, const Options& options, const std::string& text, Size sample_bytes,
               std::FILE* out) {
  std::vector<Training> of_rank(static_cast<std::size_t>(options.ranks));
  zero::run_threads(of_rank.size(), [&](zero::ThreadCommunicator& comm) {
    of_rank[comm.rank()] = train_rank<StageType, T>(name, options, text, sample_bytes, comm, out);
  });
  return of_all_ranks(of_rank);
}

}  // namespace gpt
