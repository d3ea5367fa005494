// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A training in the stage that the command line names, and what is said of it. Includes report.hpp.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "report.hpp"

namespace gpt {

/// f.template operator()<StageType>(name) for the stage of the options.
template <class F>
Training with_stage(const Options& options, F f) {
  switch (options.stage) {
    case 0: return f.template operator()<zero::Ddp>("Ddp");
    case 1: return f.template operator()<zero::Zero1>("Zero1");
    case 2: return f.template operator()<zero::Zero2>("Zero2");
    default: return f.template operator()<zero::Zero3>("Zero3");
  }
}

/// Prints what the training left, and writes the losses where they are asked for.
///
/// Errors:  UsageError if that file cannot be written.
inline void tell(const Options& options, const Training& result) {
  if (!options.losses.empty()) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
        std::fopen(options.losses.c_str(), "w"), std::fclose);
    bool written = file != nullptr;
    for (const double loss : result.losses) {
      written = written && std::fprintf(file.get(), "%s\n", hex(loss).c_str()) > 0;
    }
    if (!written || std::fflush(file.get()) != 0)
      throw UsageError("The losses cannot be written to " + options.losses +
                       ": choose another file.");
  }
  std::printf("%zu parameters; %zu bytes held and %zu bytes sent per step by each of %lld ranks\n",
              result.parameters, result.held.total(), result.sent.total(),
              static_cast<long long>(options.ranks));
  std::printf("\nThe model writes:\n%s\n", printable(result.sample).c_str());
}

}  // namespace gpt
