// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Text to train on: reads it, cuts micro-batches from it, picks bytes for a sample. Includes std
// and headers beside it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "functions.hpp"
#include "random.hpp"
#include "usage_error.hpp"

namespace gpt {

/// Where Debian and its relatives keep the texts of common licences.
inline constexpr const char* default_text = "/usr/share/common-licenses";

/// The bytes of a file, or of all files of a folder in the order of their names (links left out, so
/// that nothing is read twice).
///
/// Errors:  UsageError if nothing is there or it is shorter than `least_bytes`.
inline std::string read_text(const std::string& path, Size least_bytes) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<fs::path> files;
  if (fs::is_directory(path, error)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
      if (entry.is_regular_file(error) && !entry.is_symlink(error)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(path);
  }
  std::string text;
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    if (!in)
      throw UsageError("The text " + file.string() +
                       " cannot be read: choose another with --text FILE.");
    text.append(std::istreambuf_iterator<char>(in), {});
  }
  if (text.empty())
    throw UsageError("The text " + path + " is empty: choose another with --text FILE.");
  if (static_cast<Size>(text.size()) < least_bytes)
    throw UsageError("The text " + path + " has " + std::to_string(text.size()) +
                     " bytes, fewer than a sequence and the byte after it (" +
                     std::to_string(least_bytes) +
                     "): choose a longer one or a smaller --context.");
  return text;
}

/// Which micro-batch: together with the row, all that its bytes depend on.
struct BatchPosition {
  std::uint64_t seed;
  Size step, micro_step, rank;
};

/// One micro-batch of a rank: `inputs` and, one byte further on, `targets`, both [sequences,
/// length].
class Batch {
 public:
  Batch(Size sequences, Size length)
      : inputs(static_cast<std::size_t>(sequences * length)),
        targets(inputs.size()),
        sequences_(sequences),
        length_(length) {}

  std::vector<std::uint8_t> inputs, targets;

  /// Cuts each row out of `text` at a place that depends on the position and the row only.
  void fill(const std::string& text, const BatchPosition& p) {
    for (Size row = 0; row < sequences_; ++row) {
      std::uint64_t bits = p.seed;
      for (const Size value : {p.step, p.micro_step, p.rank, row})
        bits = mix(bits, static_cast<std::uint64_t>(value));
      const auto places =
          static_cast<std::uint64_t>(text.size()) - static_cast<std::uint64_t>(length_);
      const char* begin = text.data() + bits % places;
      std::copy(begin, begin + length_, inputs.begin() + row * length_);
      std::copy(begin + 1, begin + 1 + length_, targets.begin() + row * length_);
    }
  }

 private:
  Size sequences_, length_;
};

/// Draws a byte from softmax(logits / temperature); `uniform` in [0, 1) decides which.
template <class Real>
std::uint8_t draw_byte(Real* logits, Size classes, Real temperature, Real uniform) {
  for (Size i = 0; i < classes; ++i) logits[i] /= temperature;
  softmax(logits, classes);
  Size chosen = 0;
  for (Real sum = logits[0]; chosen + 1 < classes && sum <= uniform; sum += logits[++chosen]) {}
  return static_cast<std::uint8_t>(chosen);
}

/// The byte as it may be shown on a terminal: control characters other than newline become a dot.
inline char printable(std::uint8_t byte) {
  return byte == '\n' || (byte >= 0x20 && byte < 0x7f) ? static_cast<char>(byte) : '.';
}

inline std::string printable(std::string text) {
  for (char& c : text) c = printable(static_cast<std::uint8_t>(c));
  return text;
}

}  // namespace gpt
