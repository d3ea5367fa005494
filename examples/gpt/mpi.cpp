// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trains a byte-level GPT in one stage, with a process for each rank: mpirun -n 4 gpt_mpi. Its
// losses have the bits of gpt_train --ranks 4.
#include <cstdio>
#include <string>
#include <zero/mpi.hpp>

#include "one_stage.hpp"
#include "options.hpp"
#include "program.hpp"
#include "text.hpp"
#include "trainer.hpp"

int main(int argc, char** argv) {
  return gpt::run_program("gpt_mpi", [&] {
    gpt::Options options = gpt::parse_options(argc, argv, gpt::Program::mpi);
    if (options.help)
      return std::fputs(gpt::usage("gpt_mpi", gpt::Program::mpi).c_str(), stdout) < 0 ? 1 : 0;
    const std::string text = gpt::read_text(options.text, options.context + 1);
    gpt::use_one_thread_for_math();
    zero::run_mpi([&](zero::MpiCommunicator& comm) {
      options.ranks = static_cast<gpt::Size>(comm.size());
      const gpt::Training result = gpt::with_stage(options, [&]<class StageType>(const char* name) {
        return gpt::train_rank<StageType>(name, options, text, options.sample, comm, stdout);
      });
      if (comm.rank() == 0) gpt::tell(options, result);
    });
    return 0;
  });
}
