// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What a fuzzer tries on all readers of files that nobody vouches for. An input is a letter, which
// names the reader, and what it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include <zero/checkpoint.hpp>

#include "../memory_files.hpp"

namespace fuzz {

/// What must hold whatever is read; a fuzzer sees that the program ends.
inline void demand(bool holds) {
  if (!holds) std::abort();
}

/// A file that is read has tensors that fill it; written and read again it is the same.
inline void read_safetensors(std::string_view file) {
  char first[8] = {};
  std::memcpy(first, file.data(), file.size() < 8 ? file.size() : 8);
  const std::uint64_t length = zero::safetensors_text_bytes(first, file.size(), "a file");
  const zero::SafetensorsHeader header =
      zero::parse_safetensors(file.substr(8, length), file.size(), "a file");
  std::uint64_t end = 0;
  for (const zero::StoredTensor& tensor : header.tensors) {
    demand(tensor.begin == end && zero::bytes_of_stored(tensor.type) > 0);
    end += tensor.bytes;
  }
  demand(header.data_begin + end == file.size());
  std::vector<zero::StoredTensor> tensors = header.tensors;
  const std::string text = zero::write_safetensors(tensors, header.metadata);
  const zero::SafetensorsHeader again =
      zero::parse_safetensors(std::string_view(text).substr(8), text.size() + end, "a file");
  demand(again.metadata == header.metadata && again.tensors.size() == header.tensors.size());
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    demand(again.tensors[t].name == header.tensors[t].name &&
           again.tensors[t].shape == header.tensors[t].shape &&
           again.tensors[t].begin == header.tensors[t].begin);
  }
}
/// A manifest that is read, behind a digest that is right, is written and read as the same.
inline void read_manifest(std::string_view body) {
  const auto wrapped = [](std::string_view text) {
    return std::string(zero::detail::manifest_begin) + zero::detail::Digest::of(text).text() +
           std::string(zero::detail::manifest_middle) + std::string(text) +
           std::string(zero::detail::manifest_end);
  };
  const zero::Manifest manifest = zero::detail::read_manifest(wrapped(body), "a manifest");
  const std::string text = zero::detail::write_manifest(manifest);
  demand(zero::detail::write_manifest(zero::detail::read_manifest(text, "a manifest")) == text);
}
/// The index of a folder with two files.
inline void read_index(std::string_view index) {
  static const std::string a = [] {
    std::vector<zero::StoredTensor> tensors{{"a", "U8", {1}, 0, 1}};
    return zero::write_safetensors(tensors) + "x";
  }();
  files::MemoryFiles disk;
  disk.make_directory("hf");
  zero::detail::write_text(disk, "hf/a.safetensors", a);
  zero::detail::write_text(disk, "hf/none.safetensors", zero::write_safetensors({}));
  zero::detail::write_text(disk, "hf/model.safetensors.index.json", index);
  const zero::WeightFiles files("hf", disk);
  demand(files.tensors().size() == 1 && files.tensors()[0].stored.name == "a");
}
/// Whether a reader takes an input; it must refuse others by a CheckpointError.
inline bool reads(std::string_view input) {
  if (input.empty()) return false;
  const std::string_view rest = input.substr(1);
  try {
    switch (input[0]) {
      case 's': read_safetensors(rest); return true;
      case 'm': read_manifest(rest); return true;
      case 'i': read_index(rest); return true;
      default: return false;
    }
  } catch (const zero::CheckpointError&) { return false; }
}

}  // namespace fuzz
