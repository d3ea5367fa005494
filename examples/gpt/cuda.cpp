// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trains a byte-level GPT in one stage on GPUs and lets it write: with a thread for each GPU, or as
// one of the processes that torchrun, mpirun or srun started. The model and its passes are those of
// gpt_train; see cuda/math.cuh for what computes them.
#include <cstdio>
#include <optional>
#include <string>
#include <zero/comm/launch/place.hpp>

#include "cuda/ranks.hpp"
#include "cuda/training.hpp"
#include "one_stage.hpp"
#include "options.hpp"
#include "program.hpp"
#include "text.hpp"

int main(int argc, char** argv) {
  return gpt::run_program("gpt_cuda", [&] {
    gpt::Options defaults;
    defaults.ranks = 0;  // not given
    gpt::Options options = gpt::parse_options(argc, argv, gpt::Program::cuda, defaults);
    if (options.help)
      return std::fputs(gpt::usage("gpt_cuda", gpt::Program::cuda).c_str(), stdout) < 0 ? 1 : 0;
    const std::string text = gpt::read_text(options.text, options.context + 1);
    const std::optional<zero::LaunchPlace> place = zero::find_launch_place();
    const gpt::Size most = place ? static_cast<gpt::Size>(place->size) : gpt::gpu_count();
    if (options.ranks == 0) options.ranks = most;
    if (place ? options.ranks != most : options.ranks > most)
      throw gpt::UsageError("There are " + std::to_string(most) + (place ? " processes" : " GPUs") +
                            ", one for each rank, and --ranks is " + std::to_string(options.ranks) +
                            ": leave it out.");
    const gpt::Training result = gpt::with_stage(options, [&]<class StageType>(const char* name) {
      constexpr zero::StageValue stage = zero::stage_value<StageType>;
      return place ? gpt::train_as_process(*place, name, stage, options, text, stdout)
                   : gpt::train_on_gpus(name, stage, options, text, stdout);
    });
    if (!place || place->rank == 0) gpt::tell(options, result);
    return 0;
  });
}
