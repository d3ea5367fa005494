// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trains a byte-level GPT in one stage and lets it write.
#include <cstdio>
#include <string>

#include "options.hpp"
#include "program.hpp"
#include "text.hpp"
#include "trainer.hpp"

namespace {

gpt::Training train(const gpt::Options& o, const std::string& text) {
  switch (o.stage) {
    case 0: return gpt::train<zero::Ddp>("Ddp", o, text, o.sample, stdout);
    case 1: return gpt::train<zero::Zero1>("Zero1", o, text, o.sample, stdout);
    case 2: return gpt::train<zero::Zero2>("Zero2", o, text, o.sample, stdout);
    default: return gpt::train<zero::Zero3>("Zero3", o, text, o.sample, stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return gpt::run_program("gpt_train", [&] {
    const gpt::Options options = gpt::parse_options(argc, argv);
    if (options.help) return std::fputs(gpt::usage("gpt_train").c_str(), stdout) < 0 ? 1 : 0;
    const std::string text = gpt::read_text(options.text, options.context + 1);
    gpt::use_one_thread_for_math();
    const gpt::Training result = train(options, text);
    std::printf(
        "%zu parameters; %zu bytes held and %zu bytes sent per step by each of %lld ranks\n",
        result.parameters, result.held.total(), result.sent.total(),
        static_cast<long long>(options.ranks));
    std::printf("\nThe model writes:\n%s\n", gpt::printable(result.sample).c_str());
    return 0;
  });
}
