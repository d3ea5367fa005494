// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Manifest: what a checkpoint holds and where it lies. May include base/ and layout/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/digest.hpp>
#include <zero/checkpoint/detail/text.hpp>
#include <zero/checkpoint/stored_type.hpp>
#include <zero/layout/flat_layout.hpp>
#include <zero/layout/tensor.hpp>

namespace zero {

/// The contents of manifest.json. It names tensors and their elements, and knows nothing of ranks,
/// padding and stage.
struct Manifest {
  static constexpr std::uint64_t version = 1;                // of the format
  static constexpr const char* file_name = "manifest.json";  // in the directory of a checkpoint
  static constexpr std::uint64_t most_bytes = std::uint64_t{1} << 28;     // of its text
  static constexpr std::uint64_t least_chunk = 64;                        // of chunk_bytes
  static constexpr std::uint64_t largest_chunk = std::uint64_t{1} << 30;  // of chunk_bytes

  /// So that no element lies in two chunks.
  static constexpr bool is_chunk(std::uint64_t bytes) {
    return bytes >= least_chunk && bytes <= largest_chunk && (bytes & (bytes - 1)) == 0;
  }

  /// Weights, or a state of the optimizer.
  struct Part {
    std::string name;                    // "weight", "state.0", ...
    DataType type = DataType::fp32;      // of each element
    std::optional<DataType> exact_in{};  // see HeldPart
    /// The type that counts where a conversion may lose bits.
    DataType exact_type() const { return exact_in.value_or(type); }
  };
  /// A tensor of the model.
  struct Tensor {
    std::string name;           // its key
    Shape shape;                // of the whole tensor
    std::int64_t counter = 0;   // how often it was updated
    std::vector<Part> parts{};  // what is kept of it
  };
  /// Elements of one part of a tensor that lie in a file without a gap.
  struct Piece {
    std::size_t tensor = 0, part = 0;      // index in tensors, and in their parts
    std::uint64_t begin = 0, count = 0;    // the elements of the tensor that lie here
    std::vector<detail::Digest> chunks{};  // of each chunk_bytes of the piece; the last is shorter
  };
  /// A safetensors file.
  struct File {
    std::string name;                // in the directory
    std::uint64_t header_bytes = 0;  // of its header, with the length in front
    detail::Digest header{};         // of those
    detail::Digest digest{};         // of the whole file
    std::vector<Piece> pieces{};     // in the order in which they lie behind the header
  };

  std::int64_t step = 0;                               // how many steps were applied
  std::uint64_t chunk_bytes = std::uint64_t{1} << 22;  // of what one digest covers
  std::map<std::string, double> scalars{};    // numbers of the training, such as the loss scale
  std::map<std::string, std::string> user{};  // what save() was given
  std::vector<Tensor> tensors{};              // all of the model
  std::vector<File> files{};                  // all of the checkpoint

  /// The part that a piece is of.
  const Part& part(const Piece& piece) const { return tensors[piece.tensor].parts[piece.part]; }
  /// Bytes of a piece.
  std::uint64_t bytes(const Piece& piece) const { return piece.count * size_of(part(piece).type); }
  /// Bytes of a file.
  std::uint64_t bytes(const File& file) const {
    std::uint64_t sum = file.header_bytes;
    for (const Piece& piece : file.pieces) sum += bytes(piece);
    return sum;
  }
  /// What a piece is called as a tensor of its file: unlike the others of the file.
  std::string entry(const Piece& piece) const {
    const Tensor& tensor = tensors[piece.tensor];
    std::string name = tensor.name;
    if (part(piece).name != "weight") name += '/' + part(piece).name;
    if (piece.count == tensor.shape.elements()) return name;
    return name + '[' + std::to_string(piece.begin) + ':' +
           std::to_string(piece.begin + piece.count) + ']';
  }
  /// The shape of a piece in its file.
  std::vector<std::uint64_t> entry_shape(const Piece& piece) const {
    const Shape& shape = tensors[piece.tensor].shape;
    if (piece.count != shape.elements()) return {piece.count};
    return {shape.dims, shape.dims + shape.rank};
  }
  /// A piece for the text of an error.
  std::string text(const Piece& piece) const {
    return "tensor " + detail::in_quotes(tensors[piece.tensor].name) + " (" + part(piece).name +
           ", elements " + std::to_string(piece.begin) + " to " +
           std::to_string(piece.begin + piece.count) + ")";
  }

  /// Every element of every part lies in exactly one piece, and all numbers fit each other.
  ///
  /// Errors:  CheckpointError that says which does not. `where` names the manifest.
  void check(const std::string& where) const {
    const auto refuse = [&](const std::string& what) {
      throw CheckpointError(where + " is damaged or hostile: " + what +
                            "; load another checkpoint");
    };
    if (!is_chunk(chunk_bytes)) { refuse("chunks have " + std::to_string(chunk_bytes) + " bytes"); }
    std::set<std::string> names;
    std::vector<std::size_t> first;  // [tensor] index of its first part among all
    std::size_t parts = 0;
    for (const Tensor& tensor : tensors) {
      if (!names.insert(tensor.name).second) {
        refuse("tensor " + detail::in_quotes(tensor.name) + " stands twice");
      }
      first.push_back(parts);
      parts += tensor.parts.size();
      std::set<std::string> own;
      for (const Part& p : tensor.parts) {
        if (p.name.empty() || !own.insert(p.name).second) {
          refuse("tensor " + detail::in_quotes(tensor.name) +
                 " has a part without a name of its own");
        }
      }
    }
    std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>> covered(parts);
    names.clear();
    for (const File& file : files) {
      if (!detail::is_base_name(file.name) || file.name == file_name ||
          !names.insert(file.name).second) {
        refuse("a file is called " + detail::in_quotes(file.name) +
               ", which is no name of its own in a directory");
      }
      for (const Piece& piece : file.pieces) {
        if (piece.tensor >= tensors.size() || piece.part >= tensors[piece.tensor].parts.size()) {
          refuse("a piece of an unknown tensor lies in " + detail::in_quotes(file.name));
        }
        const std::uint64_t elements = tensors[piece.tensor].shape.elements();
        if (piece.count == 0 || piece.begin > elements || piece.count > elements - piece.begin) {
          refuse("a piece of tensor " + detail::in_quotes(tensors[piece.tensor].name) +
                 " lies outside it");
        }
        if (piece.chunks.size() != (bytes(piece) + chunk_bytes - 1) / chunk_bytes) {
          refuse(text(piece) + " has " + std::to_string(piece.chunks.size()) + " digests");
        }
        covered[first[piece.tensor] + piece.part].emplace_back(piece.begin,
                                                               piece.begin + piece.count);
      }
    }
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      for (std::size_t p = 0; p < tensors[t].parts.size(); ++p) {
        auto& pieces = covered[first[t] + p];
        std::sort(pieces.begin(), pieces.end());
        std::uint64_t end = 0;
        for (const auto& [piece_begin, piece_end] : pieces) {
          if (piece_begin != end) break;
          end = piece_end;
        }
        const std::uint64_t elements = tensors[t].shape.elements();
        if (end != elements || (!pieces.empty() && pieces.back().second != end)) {
          refuse("tensor " + detail::in_quotes(tensors[t].name) + " (" + tensors[t].parts[p].name +
                 ") is not whole: its pieces leave a hole or overlap at element " +
                 std::to_string(end));
        }
      }
    }
  }
};

}  // namespace zero
