// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// zero-plan: says which stages, meshes and batches of a model fit on some devices, and how fast
// each would be.
#include <fstream>
#include <iostream>
#include <sstream>

#include "page.hpp"
#include "picture.hpp"
#include "usage.hpp"

int main(int argc, char** argv) try {
  const zero_plan::Options options = zero_plan::parse_options(argc, argv);
  if (options.help || options.list) {
    std::cout << (options.help ? zero_plan::usage() : zero_plan::list());
    return 0;
  }
  const zero::plan::Advice advice = zero::plan::advise(options.question);
  std::ostringstream answer;
  if (options.format == "json") {
    print_json(answer, options, advice);
  } else if (options.format == "html") {
    print_page(answer, options, advice);
  } else if (options.format == "svg" || options.format == "trace") {
    print_picture(answer, options, advice);
  } else {
    print_table(answer, options, advice);
  }
  std::ofstream file;
  if (!options.output.empty()) file.open(options.output);
  std::ostream& out = options.output.empty() ? std::cout : file;
  if (!(out << answer.str()).flush()) {
    throw zero_plan::UsageError(options.output.empty()
                                    ? "The answer cannot be written."
                                    : "'" + options.output + "' cannot be written.");
  }
  return 0;
} catch (const zero_plan::UsageError& error) {
  std::cerr << "zero-plan: " << error.what() << '\n';
  return 2;
} catch (const std::exception& error) {
  std::cerr << "zero-plan: " << error.what() << '\n';
  return 1;
}
