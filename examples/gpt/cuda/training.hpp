// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A whole training on GPUs, for a host compiler. Includes basic_trainer.hpp.
#pragma once

#include <cstdio>
#include <string>
#include <zero/comm/launch/place.hpp>

#include "../basic_trainer.hpp"

namespace gpt {

/// Trains in a stage with one thread and one GPU for each rank, and shows the progress on `out`.
Training train_on_gpus(const char* name, const zero::StageValue& stage, const Options& options,
                       const std::string& text, std::FILE* out);

/// The same as one of several processes, each with a GPU. The result is this rank's.
Training train_as_process(const zero::LaunchPlace& place, const char* name,
                          const zero::StageValue& stage, const Options& options,
                          const std::string& text, std::FILE* out);

}  // namespace gpt
