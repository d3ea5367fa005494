// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Looks at checkpoints and safetensors files, verifies them and merges them.
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>
#include <zero/checkpoint.hpp>

namespace {

const char usage[] =
    "usage: zero-checkpoint list PATH          what a checkpoint or a safetensors file holds\n"
    "       zero-checkpoint verify PATH        reads every byte of a checkpoint\n"
    "       zero-checkpoint merge PATH FILE    writes its weights into one safetensors file\n"
    "PATH is a checkpoint, or a directory of several, of which `latest` names one.\n";

template <class Extents>
std::string text_of(const Extents& extents) {
  std::string text;
  for (const auto extent : extents) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return '[' + text + ']';
}

void list_file(const std::string& path) {
  zero::detail::InFile file(zero::disk_files(), path);
  const std::string where = "file '" + path + "'";
  char first[8] = {};
  const std::uint64_t bytes = file.size();
  if (bytes >= sizeof first) file.read(first, sizeof first, 0);
  const std::uint64_t length = zero::safetensors_text_bytes(first, bytes, where);
  std::string text(length, '\0');
  file.read(text.data(), text.size(), sizeof first);
  for (const zero::StoredTensor& tensor : zero::parse_safetensors(text, bytes, where).tensors) {
    std::printf("%-40s %-5s %s\n", tensor.name.c_str(), std::string(tensor.type).c_str(),
                text_of(tensor.shape).c_str());
  }
}
void list(const std::string& path) {
  if (path.ends_with(".safetensors")) return list_file(path);
  const zero::StoredCheckpoint checkpoint(path);
  const zero::Manifest& manifest = checkpoint.manifest();
  std::printf("%s: step %lld, %zu tensors in %zu files\n", checkpoint.path().c_str(),
              static_cast<long long>(manifest.step), manifest.tensors.size(),
              manifest.files.size());
  for (const zero::Manifest::Tensor& tensor : manifest.tensors) {
    std::string parts;
    for (const zero::Manifest::Part& part : tensor.parts) {
      parts += ' ' + part.name + ' ' + std::string(zero::stored_name(part.type));
    }
    std::printf(
        "%-40s %s updates %lld%s\n", tensor.name.c_str(),
        text_of(std::vector(tensor.shape.dims, tensor.shape.dims + tensor.shape.rank)).c_str(),
        static_cast<long long>(tensor.counter), parts.c_str());
  }
  for (const auto& [name, value] : manifest.scalars) std::printf("%s = %g\n", name.c_str(), value);
  for (const auto& [name, text] : manifest.user) {
    std::printf("%s = \"%s\"\n", name.c_str(), text.c_str());
  }
}
void show(std::uint64_t done, std::uint64_t all) {
  const double share = all == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all);
  std::fprintf(stderr, "\r%5.1f %% of %.1f MB%s", 100 * share, static_cast<double>(all) / 1e6,
               done == all ? "\n" : "");
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 2 && words[0] == "list") {
    list(words[1]);
  } else if (words.size() == 2 && words[0] == "verify") {
    zero::StoredCheckpoint checkpoint(words[1]);
    checkpoint.verify(show);
    std::printf("%s: every byte is right\n", checkpoint.path().c_str());
  } else if (words.size() == 3 && words[0] == "merge") {
    zero::StoredCheckpoint(words[1]).merge(words[2], show);
  } else {
    std::fputs(usage, stderr);
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "zero-checkpoint: %s\n", error.what());
    return 1;
  }
}
