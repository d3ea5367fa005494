// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The safetensors file that one rank writes. May include base/ and layout/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>
#include <zero/checkpoint/detail/digest.hpp>
#include <zero/checkpoint/detail/file_io.hpp>
#include <zero/checkpoint/files.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/checkpoint/manifest.hpp>
#include <zero/checkpoint/safetensors.hpp>

namespace zero::detail {

/// What holder `holder` of `holders` writes of a range that all of them hold: an equal part.
constexpr HeldRange own_part(const HeldRange& range, DataType type, std::size_t holders,
                             std::size_t holder) {
  const std::uint64_t each = range.count / holders, more = range.count % holders;
  const std::uint64_t before = holder * each + std::min<std::uint64_t>(holder, more);
  return {range.begin + before, each + (holder < more ? 1 : 0),
          range.data == nullptr ? nullptr
                                : static_cast<std::byte*>(range.data) + before * size_of(type)};
}

/// The entries of a safetensors file for the pieces of a manifest's file.
inline std::vector<StoredTensor> entries_of(const Manifest& manifest, const Manifest::File& file) {
  std::vector<StoredTensor> entries;
  for (const Manifest::Piece& piece : file.pieces) {
    entries.push_back({.name = manifest.entry(piece),
                       .type = stored_name(manifest.part(piece).type),
                       .shape = manifest.entry_shape(piece),
                       .bytes = manifest.bytes(piece)});
  }
  return entries;
}

/// Bytes [begin, begin + bytes) of a piece, good until the next call.
using Fetch = std::function<const std::byte*(const Manifest::Piece& piece, std::uint64_t begin,
                                             std::uint64_t bytes)>;

/// Writes this rank's part of `state`, or what `fetch` says that it holds, into a file in
/// `directory`: durable, but for its name. Writes no file if there is nothing to write; the result
/// then has no pieces.
inline Manifest::File write_rank_file(
    Files& files, const std::string& directory, std::size_t rank, const HeldState& state,
    const Manifest& manifest, const std::function<void(std::uint64_t, std::uint64_t)>& progress,
    const Fetch& fetch = {}) {
  struct Source {
    Manifest::Piece piece;
    const std::byte* data;
  };
  std::vector<Source> sources;
  for (std::size_t t = 0; t < state.tensors.size(); ++t) {
    for (std::size_t p = 0; p < state.tensors[t].parts.size(); ++p) {
      const HeldPart& part = state.tensors[t].parts[p];
      for (const HeldRange& range : part.ranges) {
        const HeldRange own = own_part(range, part.type, part.holders, part.holder);
        if (own.count == 0) continue;
        sources.push_back({{t, p, own.begin, own.count}, static_cast<std::byte*>(own.data)});
      }
    }
  }
  // Weights first, then state by state, so that a part is read in one run; wide types first, so
  // that every tensor begins at a multiple of its element.
  std::stable_sort(sources.begin(), sources.end(), [&](const Source& a, const Source& b) {
    const auto key = [&](const Source& source) {
      return std::pair(8 - size_of(manifest.part(source.piece).type), source.piece.part);
    };
    return key(a) < key(b);
  });

  Manifest::File file;
  file.name = "rank-" + std::to_string(rank) + ".safetensors";
  for (const Source& source : sources) file.pieces.push_back(source.piece);
  if (sources.empty()) return file;
  std::vector<StoredTensor> entries = entries_of(manifest, file);
  const std::string header = write_safetensors(entries, {{"format", "pt"}, {"written_by", "zero"}});
  file.header_bytes = header.size();
  file.header = Digest::of(header);
  OutFile out(files, directory + '/' + file.name);
  DigestStream digest;
  out.write(header.data(), header.size());
  digest.add(header.data(), header.size());
  const std::uint64_t all = manifest.bytes(file);
  std::uint64_t done = header.size();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::uint64_t bytes = manifest.bytes(file.pieces[i]);
    for (std::uint64_t begin = 0; begin < bytes; begin += manifest.chunk_bytes) {
      const std::uint64_t count = std::min(manifest.chunk_bytes, bytes - begin);
      const std::byte* const data =
          fetch ? fetch(file.pieces[i], begin, count) : sources[i].data + begin;
      file.pieces[i].chunks.push_back(Digest::of(data, count));
      digest.add(data, count);
      out.write(data, count);
      done += count;
      if (progress) progress(done, all);
    }
  }
  out.finish();
  file.digest = digest.digest();
  return file;
}

}  // namespace zero::detail
