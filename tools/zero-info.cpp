// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What zero was built with, what it finds on this machine, what of the environment matters to it,
// and which settings are in effect where a program chooses none. With --json as JSON.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>
#include <zero/base/check_level.hpp>
#include <zero/base/error.hpp>
#include <zero/base/version.hpp>
#include <zero/comm/launch/place.hpp>
#include <zero/comm/thread_communicator.hpp>
#include <zero/module/options.hpp>
#include <zero/optim/detail/widest.hpp>
#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>
#endif
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif
#if __has_include(<mpi.h>)
#define OMPI_SKIP_MPICXX
#define MPICH_SKIP_MPICXX
#include <mpi.h>
#endif

extern char** environ;

struct Line {
  std::string name, value;
};
using Lines = std::vector<Line>;

std::string version(int major, int minor, int patch) {
  return std::to_string(major) + '.' + std::to_string(minor) + '.' + std::to_string(patch);
}

Lines built_with() {
  Lines lines{{"zero", version(zero::version_major, zero::version_minor, zero::version_patch)},
              {"compiler", __VERSION__},
              {"C++", std::to_string(__cplusplus)},
#ifdef __OPTIMIZE__
              {"optimised", "yes"}};
#else
              {"optimised", "no"}};
#endif
  std::string cuda = "not found", nccl = cuda, mpi = cuda, checkpoints = cuda;
#ifdef CUDART_VERSION
  cuda = version(CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, CUDART_VERSION % 10);
#endif
#ifdef NCCL_VERSION_CODE
  nccl = version(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
#endif
#ifdef OMPI_MAJOR_VERSION
  mpi = "Open MPI " + version(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION)
  mpi = std::string("MPICH ") + MPICH_VERSION;
#endif
#if __has_include(<xxhash.h>)
  checkpoints = "found";
#endif
  lines.insert(lines.end(), {{"CUDA headers", cuda},
                             {"NCCL header", nccl},
                             {"MPI header", mpi},
                             {"xxhash header", checkpoints}});
  return lines;
}

/// Calls the function `name` of a library that may be here, as int(int*), and gives what it wrote.
std::string asked(const char* library, const char* name, std::string (*text)(int)) {
  void* const handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return "not found";
  // Never closed: libraries of CUDA cannot be loaded twice.
  using Function = int (*)(int*);
  const auto function = reinterpret_cast<Function>(dlsym(handle, name));
  int number = 0;
  if (function == nullptr) return "found";
  const int error = function(&number);
  return error == 0 ? text(number) : "found, but it fails with error " + std::to_string(error);
}

/// What a program would find when it runs.
Lines found() {
  const auto cuda = [](int v) { return version(v / 1000, v % 1000 / 10, v % 10); };
  const auto nccl = [](int v) { return version(v / 10000, v % 10000 / 100, v % 100); };
  return {{"hardware threads", std::to_string(std::thread::hardware_concurrency())},
          {"CUDA driver, up to CUDA", asked("libcuda.so.1", "cuDriverGetVersion", cuda)},
          {"CUDA runtime", asked("libcudart.so", "cudaRuntimeGetVersion", cuda)},
          {"NCCL", asked("libnccl.so.2", "ncclGetVersion", nccl)}};
}

/// The rank that a launcher gave this process, or why there is none.
Lines launched() {
  try {
    const auto place = zero::find_launch_place();
    if (!place) return {{"launcher", "none"}};
    return {{"launcher", place->launcher},
            {"rank", std::to_string(place->rank)},
            {"size", std::to_string(place->size)},
            {"local rank", place->local_rank ? std::to_string(*place->local_rank) : "unknown"},
            {"run", place->run.empty() ? "without a name" : place->run},
            {"rank 0 is at", place->master_address.empty() ? "unknown" : place->master_address}};
  } catch (const zero::Error& error) { return {{"launcher", error.what()}}; }
}

/// The variables that are set and change what zero, a launcher, MPI, NCCL, CUDA or BLAS do.
Lines environment() {
  std::vector<std::string> names{"ZERO_LAUNCHER",
                                 "MASTER_ADDR",
                                 "MASTER_PORT",
                                 "CUDA_VISIBLE_DEVICES",
                                 "CUDA_LAUNCH_BLOCKING",
                                 "CUDA_MODULE_LOADING",
                                 "CUDA_DEVICE_MAX_CONNECTIONS",
                                 "OMP_NUM_THREADS",
                                 "OPENBLAS_NUM_THREADS",
                                 "LD_PRELOAD"};
  for (const zero::detail::LauncherNames& launcher : zero::detail::launchers) {
    for (const char* name :
         {launcher.rank, launcher.size, launcher.local_rank, launcher.local_size, launcher.run}) {
      if (name != nullptr) names.push_back(name);
    }
  }
  Lines lines;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::size_t equals = text.find('=');
    if (equals == text.npos) continue;
    const std::string_view name = text.substr(0, equals);
    const bool family = name.starts_with("NCCL_") || name.starts_with("OMPI_MCA_") ||
                        name.starts_with("UCX_") || name.starts_with("ZERO_EMULATOR_");
    if (!family && std::find(names.begin(), names.end(), name) == names.end()) continue;
    lines.push_back({std::string(name), std::string(text.substr(equals + 1))});
  }
  std::sort(lines.begin(), lines.end(),
            [](const Line& a, const Line& b) { return a.name < b.name; });
  return lines;
}

std::string vectors() {
#if defined(__AVX512F__)
  return "AVX-512, as compiled";
#elif defined(__AVX2__)
  return "AVX2, as compiled";
#else
  return zero::detail::has_avx2() ? "AVX2, chosen at run time" : "those that were compiled for";
#endif
}

/// What holds where a program chooses nothing else.
Lines settings() {
  const zero::ModuleOptions module;
  const auto ms = [](std::chrono::milliseconds time) {
    return std::to_string(time.count()) + " ms";
  };
  constexpr const char* levels[] = {"0: calls are not checked", "1: each rank checks its own calls",
                                    "2: views know their scope, and ranks compare their calls"};
  return {{"ZERO_CHECK_LEVEL", levels[std::min(ZERO_CHECK_LEVEL, 2)]},
          {"vectors of the optimizer and casts", vectors()},
          {"ModuleOptions::streams",
           module.streams == zero::StreamMode::inline_run ? "inline_run" : "asynchronous"},
          {"ModuleOptions::max_micro_steps", std::to_string(module.max_micro_steps)},
          {"ModuleOptions::poison", module.poison || ZERO_CHECK_LEVEL > 1 ? "true" : "false"},
          {"ModuleOptions::norm", std::to_string(static_cast<int>(module.norm))},
          {"ModuleOptions::time_limit", ms(module.time_limit)},
          {"ThreadOptions::time_limit", ms(zero::ThreadOptions{}.time_limit)}};
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c) & 0xffu);
    if (c == '"' || c == '\\') out += '\\';
    static_cast<unsigned char>(c) < 0x20 ? out += escape : out += c;
  }
  return out + '"';
}

int main(int argc, char** argv) {
  const bool json = argc == 2 && std::strcmp(argv[1], "--json") == 0;
  if (argc > 1 && !json) {
    const bool help = std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0;
    if (!help) std::fprintf(stderr, "zero-info: the only option is --json, alone.\n");
    std::fprintf(help ? stdout : stderr, "usage: zero-info [--json]\n");
    return help ? 0 : 2;
  }
  const std::pair<const char*, Lines> parts[] = {{"built with", built_with()},
                                                 {"found here", found()},
                                                 {"launch", launched()},
                                                 {"environment", environment()},
                                                 {"settings", settings()}};
  std::string text = json ? "{" : "";
  for (const auto& [title, lines] : parts) {
    text += json ? (text.size() > 1 ? "," : "") + quoted(title) + ":{" : std::string(title) + '\n';
    bool first = true;
    for (const Line& line : lines) {
      if (json) {
        text += (first ? "" : ",") + quoted(line.name) + ':' + quoted(line.value);
      } else {
        text += "  " + line.name + ": " + line.value + '\n';
      }
      first = false;
    }
    if (json) text += '}';
  }
  std::printf("%s%s", text.c_str(), json ? "}\n" : "");
}
