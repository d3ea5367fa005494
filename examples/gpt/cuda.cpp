// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trains a byte-level GPT in one stage on GPUs, with a thread for each, and lets it write. The
// model and its passes are those of gpt_train; see cuda/math.cuh for what computes them.
#include <cstdio>
#include <string>

#include "cuda/ranks.hpp"
#include "cuda/training.hpp"
#include "one_stage.hpp"
#include "options.hpp"
#include "program.hpp"
#include "text.hpp"

int main(int argc, char** argv) {
  return gpt::run_program("gpt_cuda", [&] {
    gpt::Options defaults;
    defaults.ranks = 0;  // a rank for each GPU
    gpt::Options options = gpt::parse_options(argc, argv, gpt::Program::cuda, defaults);
    if (options.help)
      return std::fputs(gpt::usage("gpt_cuda", gpt::Program::cuda).c_str(), stdout) < 0 ? 1 : 0;
    const std::string text = gpt::read_text(options.text, options.context + 1);
    const gpt::Size gpus = gpt::gpu_count();
    if (options.ranks == 0) options.ranks = gpus;
    if (options.ranks > gpus || gpus == 0)
      throw gpt::UsageError("--ranks " + std::to_string(options.ranks) +
                            " needs as many GPUs, and there are " + std::to_string(gpus) +
                            ": choose fewer ranks.");
    gpt::tell(options, gpt::with_stage(options, [&]<class StageType>(const char* name) {
                return gpt::train_on_gpus(name, zero::stage_value<StageType>, options, text,
                                          stdout);
              }));
    return 0;
  });
}
