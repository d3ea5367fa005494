// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What zero was built with, and what of the environment matters to it. With --json as JSON.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zero/base/check_level.hpp>
#include <zero/base/error.hpp>
#include <zero/base/version.hpp>
#include <zero/comm/launch/place.hpp>
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
              {"check level", std::to_string(ZERO_CHECK_LEVEL)}};
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
                             {"xxhash header", checkpoints},
                             {"threads", std::to_string(std::thread::hardware_concurrency())}});
  return lines;
}

/// The rank that a launcher gave this process, or why there is none.
Lines launched() {
  try {
    const auto place = zero::find_launch_place();
    if (!place) return {{"launcher", "none"}};
    return {{"launcher", place->launcher},
            {"rank", std::to_string(place->rank)},
            {"size", std::to_string(place->size)},
            {"local rank", place->local_rank ? std::to_string(*place->local_rank) : "unknown"}};
  } catch (const zero::Error& error) { return {{"launcher", error.what()}}; }
}

/// Variables that change what NCCL, CUDA or a launcher do.
Lines environment() {
  constexpr const char* beginnings[] = {
      "NCCL_",       "CUDA_VISIBLE_DEVICES=", "CUDA_LAUNCH_", "ZERO_",           "RANK=",
      "WORLD_SIZE=", "LOCAL_RANK=",           "MASTER_",      "OMP_NUM_THREADS="};
  Lines lines;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const char* const equals = std::strchr(*variable, '=');
    for (const char* beginning : beginnings) {
      if (equals == nullptr || std::strncmp(*variable, beginning, std::strlen(beginning)) != 0) {
        continue;
      }
      lines.push_back({std::string(*variable, std::size_t(equals - *variable)), equals + 1});
    }
  }
  return lines;
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
    std::fprintf(stderr, "usage: zero-info [--json]\n");
    return 2;
  }
  const std::pair<const char*, Lines> parts[] = {
      {"built with", built_with()}, {"launch", launched()}, {"environment", environment()}};
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
