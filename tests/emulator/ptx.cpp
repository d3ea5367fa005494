// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include "ptx.hpp"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "hidden.hpp"
#include "ptx_fatbinary.hpp"
#include "ptx_program.hpp"
#include "ptx_warp.hpp"

namespace emulator {

namespace {

using ptx::Execution;
using ptx::Program;

/// What was read of one fat binary.
struct Library {
  std::vector<std::shared_ptr<ptx::Loaded>> modules = {};
  std::map<std::string, std::shared_ptr<const Program>> programs = {};

  void read(const std::string& text) {
    modules.push_back(std::make_shared<ptx::Loaded>(ptx::parse(text)));
  }
  std::shared_ptr<const Program> program(const std::string& kernel) {
    std::shared_ptr<const Program>& made = programs[kernel];
    for (const auto& loaded : modules) {
      if (made != nullptr || loaded->module.functions.count(kernel) == 0) continue;
      made = std::make_shared<Program>(ptx::decode(loaded, kernel));
    }
    return made;
  }
};

std::mutex mutex;

/// Pre:     the mutex is held.
Library& library(const void* fatbin) {
  static auto* const all = new std::map<const void*, Library>;  // threads may outlive main
  const auto [at, is_new] = all->try_emplace(fatbin);
  if (is_new) {
    for (const std::string& text : ptx::ptx_texts(fatbin)) at->second.read(text);
  }
  return at->second;
}

std::function<void()> run_of(const std::shared_ptr<const Program>& program, dim3 grid, dim3 block,
                             std::size_t shared_bytes, void** arguments) {
  if (program == nullptr) return {};
  std::vector<std::byte> parameters(program->parameter_bytes);
  for (std::size_t k = 0; k < program->parameters.size(); ++k) {
    const auto& [offset, bytes] = program->parameters[k];
    std::memcpy(parameters.data() + offset, arguments[k], bytes);
  }
  return [program, grid, block, shared_bytes, parameters = std::move(parameters)] {
    Execution{*program, grid, block, parameters, program->shared_bytes + shared_bytes}.run();
  };
}

}  // namespace

std::function<void()> ptx_launch(const void* fatbin, const char* kernel, dim3 grid, dim3 block,
                                 std::size_t shared_bytes, void** arguments) {
  std::shared_ptr<const Program> program;
  {
    const Hidden hidden;
    const std::lock_guard lock(mutex);
    program = library(fatbin).program(kernel);
  }
  return run_of(program, grid, block, shared_bytes, arguments);
}

std::function<void()> ptx_launch_text(const std::string& text, const char* kernel, dim3 grid,
                                      dim3 block, std::size_t shared_bytes, void** arguments) {
  Library made;
  made.read(text);
  return run_of(made.program(kernel), grid, block, shared_bytes, arguments);
}

void* ptx_variable(const void* fatbin, const std::string& name, std::size_t* bytes) {
  const Hidden hidden;
  const std::lock_guard lock(mutex);
  for (const auto& loaded : library(fatbin).modules) {
    const auto offset = loaded->offsets.find(name);
    if (offset == loaded->offsets.end()) continue;
    for (const ptx::Variable& variable : loaded->module.variables) {
      if (variable.name == name) *bytes = variable.bytes;
    }
    return loaded->begin() + offset->second;
  }
  return nullptr;
}

}  // namespace emulator
