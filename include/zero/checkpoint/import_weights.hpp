// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// import_weights: makes a checkpoint of safetensors files, without a model. May include base/,
// layout/ and comm/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/check_conversion.hpp>
#include <zero/checkpoint/detail/listing.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/checkpoint/save.hpp>
#include <zero/checkpoint/weight_files.hpp>
#include <zero/comm/self_communicator.hpp>

namespace zero {

/// What a caller may choose of an import.
struct ImportOptions {
  /// The type that all weights get; nothing: each keeps its own.
  std::optional<DataType> type{};
  /// Rounds to a type of fewer bits.
  bool narrowing = false;
  /// Leaves out tensors that zero does not compute with, such as integers.
  bool relaxed = false;
  /// How the checkpoint is saved; its files are also those that are read.
  SaveOptions save{};
};
/// What an import did.
struct ImportReport {
  std::string path{};                   // of the checkpoint
  std::vector<std::string> left_out{};  // names of tensors
};

/// Saves the weights in a safetensors file, or in a folder in the layout of Hugging Face, as a
/// checkpoint of step 0 in the directory `to`, as zero::save does. A module loads it by
/// .weights_only = true. At no time is more than a chunk of them in memory.
///
/// Errors:  CheckpointError for damaged or hostile files, tensors that zero does not compute with,
///          types that lose bits though `narrowing` was not asked for, or if the file system fails.
inline ImportReport import_weights(const std::string& from, const std::string& to,
                                   const ImportOptions& options = {}) {
  detail::SaveJob job{{}, to, options.save};
  WeightFiles weights(from, job.files());
  ImportReport report;
  std::vector<std::pair<std::size_t, DataType>> sources;  // [tensor] where it lies, stored type
  for (std::size_t t = 0; t < weights.tensors().size(); ++t) {
    const StoredTensor& stored = weights.tensors()[t].stored;
    const std::optional<DataType> type = data_type_of(stored.type);
    if (!type || stored.shape.size() > static_cast<std::size_t>(Shape::max_rank)) {
      report.left_out.push_back(stored.name);
      continue;
    }
    const DataType made = *type == DataType::u64 ? *type : options.type.value_or(*type);
    detail::check_conversion("zero::import_weights: tensor " + detail::in_quotes(stored.name),
                             *type, made, options.narrowing);
    HeldTensor held{stored.name, {}};
    for (const std::uint64_t extent : stored.shape) {
      held.shape.dims[held.shape.rank++] = static_cast<std::int64_t>(extent);
    }
    held.parts.push_back({"weight", made, {{0, held.shape.elements(), nullptr}}});
    job.state.tensors.push_back(std::move(held));
    sources.emplace_back(t, *type);
  }
  if (!report.left_out.empty() && !options.relaxed) {
    throw CheckpointError("zero::import_weights: '" + from + "' holds " +
                          detail::text_of_names(report.left_out) +
                          " of types or of more dimensions than zero computes with; pass .relaxed "
                          "= true to leave them out");
  }
  job.replicas = detail::weigh_replicas(job.state);
  std::vector<std::byte> read, converted;
  job.fetch = [&](const Manifest::Piece& piece, std::uint64_t begin, std::uint64_t bytes) {
    const auto [t, type] = sources[piece.tensor];
    const DataType made = job.state.tensors[piece.tensor].parts[0].type;
    const std::uint64_t first = begin / size_of(made), count = bytes / size_of(made);
    read.resize(count * size_of(type));
    weights.read(weights.tensors()[t], first * size_of(type), read.size(), read.data());
    if (type == made) return read.data();
    converted.resize(bytes);
    convert(type, read.data(), made, converted.data(), count);
    return converted.data();
  };
  report.path = detail::run(job, SelfCommunicator());
  return report;
}

}  // namespace zero
