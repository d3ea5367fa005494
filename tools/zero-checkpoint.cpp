// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Looks at checkpoints and safetensors files, verifies them, and makes each of the other.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>
#include <zero/checkpoint.hpp>

namespace {

const char usage[] =
    "usage: zero-checkpoint list PATH            what a checkpoint or safetensors files hold\n"
    "       zero-checkpoint verify PATH          reads every byte of a checkpoint\n"
    "       zero-checkpoint merge PATH TARGET    writes its weights into TARGET: one file if that\n"
    "                                            ends with .safetensors, else a folder in the\n"
    "                                            layout of Hugging Face\n"
    "       zero-checkpoint import SOURCE PATH   makes a checkpoint in the directory PATH of a\n"
    "                                            safetensors file, or of such a folder\n"
    "options of merge and import:\n"
    "  --type fp32|bf16|fp16|fp64   converts the weights\n"
    "  --narrowing                  even if that rounds them\n"
    "options of merge:  --file-bytes N   of tensors in each file of the folder (5000000000)\n"
    "options of import: --relaxed        leaves out what is no floating-point number\n"
    "PATH is a checkpoint, or a directory of several, of which `latest` names one.\n";

template <class Extents>
std::string text_of(const Extents& extents) {
  std::string text;
  for (const auto extent : extents) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return '[' + text + ']';
}

void list_files(const std::string& path) {
  const zero::WeightFiles files(path);
  for (const auto& [tensor, file] : files.tensors()) {
    std::printf("%-40s %-5s %s\n", tensor.name.c_str(), std::string(tensor.type).c_str(),
                text_of(tensor.shape).c_str());
  }
}
/// Whether a path means safetensors files of others rather than checkpoints.
bool is_of_others(const std::string& path) {
  if (path.ends_with(".safetensors")) return true;
  std::vector<std::string> names;
  zero::disk_files().list(path, names);
  for (const std::string& name : names) {
    if (name == zero::WeightFiles::one_file || name == zero::WeightFiles::index_file) return true;
  }
  return false;
}
void list(const std::string& path) {
  if (is_of_others(path)) return list_files(path);
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
/// Writes over its own line of a terminal, a thousand times at most.
void show(std::uint64_t done, std::uint64_t all) {
  static const bool is_terminal = ::isatty(STDERR_FILENO) == 1;
  static std::uint64_t shown = 0;
  if (!is_terminal || (done != all && done - shown < all / 1000)) return;
  shown = done == all ? 0 : done;
  const double share = all == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all);
  std::fprintf(stderr, "\r%5.1f %% of %.1f MB%s", 100 * share, static_cast<double>(all) / 1e6,
               done == all ? "\n" : "");
}

/// What is wrong with the words after the program's name.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What stands behind the paths.
struct Options {
  std::optional<zero::DataType> type{};
  std::uint64_t file_bytes = zero::MergeOptions{}.file_bytes;
  bool narrowing = false, relaxed = false;
};
zero::DataType type_of(const std::string& name) {
  for (const zero::DataType type :
       {zero::DataType::fp32, zero::DataType::bf16, zero::DataType::fp16, zero::DataType::fp64}) {
    if (zero::name_of(type) == name) return type;
  }
  throw UsageError("--type takes fp32, bf16, fp16 or fp64, not '" + name + "'");
}
std::uint64_t bytes_of(const std::string& text) {
  const std::int64_t bytes = zero::detail::count_from(text);
  if (bytes > 0) return static_cast<std::uint64_t>(bytes);
  throw UsageError("--file-bytes takes a whole number from 1, not '" + text + "'");
}
Options options_of(const std::vector<std::string>& words, std::size_t first) {
  Options options;
  const bool merges = words[0] == "merge", imports = words[0] == "import";
  for (std::size_t i = first; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--narrowing" && (merges || imports)) {
      options.narrowing = true;
    } else if (word == "--relaxed" && imports) {
      options.relaxed = true;
    } else if ((word == "--file-bytes" && merges) || (word == "--type" && (merges || imports))) {
      if (++i == words.size()) throw UsageError(word + " needs a value after it");
      if (word == "--type") {
        options.type = type_of(words[i]);
      } else {
        options.file_bytes = bytes_of(words[i]);
      }
    } else {
      throw UsageError("'" + word + "' is no option of " + words[0]);
    }
  }
  return options;
}

void run(const std::vector<std::string>& words) {
  const std::string& command = words[0];
  const bool makes = command == "merge" || command == "import";
  if (!makes && command != "list" && command != "verify") {
    throw UsageError("'" + command + "' is none of list, verify, merge and import");
  }
  const std::size_t paths = makes ? 2 : 1;
  if (words.size() <= paths)
    throw UsageError(command + (makes ? " needs two paths" : " needs a path"));
  const Options options = options_of(words, 1 + paths);
  if (command == "list") {
    list(words[1]);
  } else if (command == "verify") {
    zero::StoredCheckpoint checkpoint(words[1]);
    checkpoint.verify(show);
    std::printf("%s: every byte is right\n", checkpoint.path().c_str());
  } else if (command == "merge") {
    zero::StoredCheckpoint checkpoint(words[1]);
    zero::merge(checkpoint, words[2],
                {.type = options.type,
                 .narrowing = options.narrowing,
                 .file_bytes = options.file_bytes,
                 .progress = show});
  } else {
    const zero::ImportReport report = zero::import_weights(words[1], words[2],
                                                           {.type = options.type,
                                                            .narrowing = options.narrowing,
                                                            .relaxed = options.relaxed,
                                                            .save = {.progress = show}});
    for (const std::string& name : report.left_out) std::printf("left out: %s\n", name.c_str());
    std::printf("%s\n", report.path.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool help = !words.empty() && (words[0] == "--help" || words[0] == "-h");
  if (words.empty() || help) {
    std::fputs(usage, help ? stdout : stderr);
    return help ? 0 : 2;
  }
  try {
    run(words);
    return 0;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "zero-checkpoint: %s: --help shows what there is.\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "zero-checkpoint: %s\n", error.what());
    return 1;
  }
}
