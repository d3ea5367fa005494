// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trains a byte-level GPT in one stage, with a thread for each rank, and lets it write.
#include <cstdio>
#include <string>

#include "one_stage.hpp"
#include "options.hpp"
#include "program.hpp"
#include "text.hpp"
#include "trainer.hpp"

int main(int argc, char** argv) {
  return gpt::run_program("gpt_train", [&] {
    const gpt::Options options = gpt::parse_options(argc, argv);
    if (options.help) return std::fputs(gpt::usage("gpt_train").c_str(), stdout) < 0 ? 1 : 0;
    const std::string text = gpt::read_text(options.text, options.context + 1);
    gpt::use_one_thread_for_math();
    gpt::tell(options, gpt::with_stage(options, [&]<class StageType>(const char* name) {
                return gpt::train<StageType>(name, options, text, options.sample, stdout);
              }));
    return 0;
  });
}
