// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ReadPlan: which bytes of a checkpoint a rank needs, and where they go. May include base/ and
// layout/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/digest.hpp>
#include <zero/checkpoint/detail/file_io.hpp>
#include <zero/checkpoint/detail/rank_file.hpp>
#include <zero/checkpoint/detail/read_ahead.hpp>
#include <zero/checkpoint/detail/targets.hpp>
#include <zero/checkpoint/files.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/checkpoint/manifest.hpp>
#include <zero/checkpoint/safetensors.hpp>

namespace zero::detail {

/// Matches the parts of a checkpoint to those that a rank holds, and reads what it needs of them:
/// to check it, and then to take it.
class ReadPlan {
 public:
  /// All three must outlive the plan.
  ReadPlan(const Manifest& manifest, Files& files, const std::string& directory)
      : manifest_(manifest), files_(files), directory_(directory) {}

  /// Asks for what `part` holds of a part of the checkpoint.
  void want(std::size_t tensor, std::size_t manifest_part, const HeldPart& part) {
    targets_[{tensor, manifest_part}].add(part);
  }
  /// Reads all that is wanted and compares it with the digests; changes nothing.
  ///
  /// Errors:  CheckpointError that names the file and the tensor.
  void verify() { read(false); }
  /// Reads it again, compares it again, and puts it where it belongs.
  void take() { read(true); }
  /// Bytes that were read last, each once.
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  void read(bool take) {
    bytes_read_ = 0;
    for (const Manifest::File& file : manifest_.files) {
      const bool needed =
          std::any_of(file.pieces.begin(), file.pieces.end(), [&](const Manifest::Piece& piece) {
            return this->needs(piece, piece.begin, piece.begin + piece.count);
          });
      if (needed) read_file(file, take);
    }
  }
  bool needs(const Manifest::Piece& piece, std::uint64_t begin, std::uint64_t end) const {
    const auto targets = targets_.find({piece.tensor, piece.part});
    return targets != targets_.end() && targets->second.meet(begin, end);
  }
  void read_file(const Manifest::File& file, bool take) {
    InFile in(files_, directory_ + '/' + file.name);
    if (in.size() != manifest_.bytes(file)) {
      throw CheckpointError("zero::load: file '" + in.path() + "' is damaged: it has " +
                            std::to_string(in.size()) + " bytes, but its manifest says " +
                            std::to_string(manifest_.bytes(file)) + "; load another checkpoint");
    }
    if (!take) check_header(in, file);
    // What is needed, chunk by chunk.
    chunks_.clear();
    parts_.clear();
    std::uint64_t offset = file.header_bytes;
    for (const Manifest::Piece& piece : file.pieces) {
      list_chunks(piece, offset);
      offset += manifest_.bytes(piece);
    }
    ahead_.run(in, parts_, [&](std::size_t i, const std::byte* data) {
      this->use(in, chunks_[i], parts_[i], data, take);
    });
  }
  void check_header(InFile& in, const Manifest::File& file) {
    const std::string where = "zero::load: file '" + in.path() + "'";
    const auto refuse = [&](const char* what) {
      throw CheckpointError(where + " is damaged: " + what + "; load another checkpoint");
    };
    if (file.header_bytes < SafetensorsHeader::length_bytes ||
        file.header_bytes - SafetensorsHeader::length_bytes > SafetensorsHeader::most_bytes) {
      refuse("its manifest gives its header an impossible size");
    }
    std::string text(static_cast<std::size_t>(file.header_bytes), '\0');
    in.read(text.data(), text.size(), 0);
    bytes_read_ += text.size();
    if (Digest::of(text) != file.header) refuse("the digest of its header differs");
    const std::uint64_t bytes = safetensors_text_bytes(std::span<const char, 8>(text.data(), 8),
                                                       manifest_.bytes(file), where);
    if (bytes + SafetensorsHeader::length_bytes != text.size()) {
      refuse("its header has another size than its manifest says");
    }
    const SafetensorsHeader header =
        parse_safetensors(std::string_view(text).substr(8), manifest_.bytes(file), where);
    const std::vector<StoredTensor> expected = entries_of(manifest_, file);
    const bool same = std::equal(header.tensors.begin(), header.tensors.end(), expected.begin(),
                                 expected.end(), [](const StoredTensor& a, const StoredTensor& b) {
                                   return a.name == b.name && a.type == b.type &&
                                          a.shape == b.shape && a.bytes == b.bytes;
                                 });
    if (!same) refuse("its header lists other tensors than its manifest");
  }
  struct Chunk {
    const Manifest::Piece* piece;
    std::size_t number;
    std::uint64_t begin, end;  // elements
  };

  void list_chunks(const Manifest::Piece& piece, std::uint64_t offset) {
    const std::uint64_t size = size_of(manifest_.part(piece).type), bytes = manifest_.bytes(piece);
    for (std::size_t c = 0; c < piece.chunks.size(); ++c) {
      const std::uint64_t at = c * manifest_.chunk_bytes;
      const std::uint64_t count = std::min(manifest_.chunk_bytes, bytes - at);
      const std::uint64_t begin = piece.begin + at / size, end = begin + count / size;
      if (!needs(piece, begin, end)) continue;
      chunks_.push_back({&piece, c, begin, end});
      parts_.push_back({offset + at, static_cast<std::size_t>(count)});
    }
  }
  void use(const InFile& in, const Chunk& chunk, const FilePart& part, const std::byte* data,
           bool take) {
    const Manifest::Piece& piece = *chunk.piece;
    bytes_read_ += part.bytes;
    if (Digest::of(data, part.bytes) != piece.chunks[chunk.number]) {
      throw CheckpointError("zero::load: file '" + in.path() + "' is damaged: the digest of " +
                            manifest_.text(piece) + " differs in bytes " +
                            std::to_string(part.offset) + " to " +
                            std::to_string(part.offset + part.bytes) + "; load another checkpoint");
    }
    if (!take) return;
    targets_.at({piece.tensor, piece.part})
        .put(manifest_.part(piece).type, data, chunk.begin, chunk.end);
  }

  const Manifest& manifest_;
  Files& files_;
  const std::string& directory_;
  std::map<std::pair<std::size_t, std::size_t>, Targets> targets_;
  std::vector<Chunk> chunks_;  // of one file
  std::vector<FilePart> parts_;
  ReadAhead ahead_;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace zero::detail
