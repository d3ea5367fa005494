// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Files of others, and what zero::load_weights makes of them on ranks. For the tests of
// checkpoint/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "held.hpp"
#include "memory_files.hpp"

namespace loaded {

using files::MemoryFiles;

/// A file of these tensors; the elements of each are numbers from `value`, small ones.
inline std::string file_of(std::vector<zero::StoredTensor> tensors, float value) {
  std::string text = zero::write_safetensors(tensors);
  for (const zero::StoredTensor& tensor : tensors) {
    const zero::DataType type = zero::data_type_of(tensor.type).value_or(zero::DataType::fp32);
    for (std::uint64_t i = 0; i < tensor.bytes / zero::size_of(type); ++i, ++value) {
      std::byte element[8];
      zero::convert(zero::DataType::fp32, &value, type, element, 1);
      text.append(reinterpret_cast<const char*>(element), zero::size_of(type));
    }
  }
  return text;
}
inline zero::StoredTensor stored(const char* name, const char* type,
                                 std::vector<std::uint64_t> shape) {
  std::uint64_t bytes = zero::bytes_of_stored(type);
  for (const std::uint64_t extent : shape) bytes *= extent;
  return {name, type, std::move(shape), 0, bytes};
}
inline void put(MemoryFiles& disk, const std::string& path, const std::string& text) {
  disk.remove(path);
  zero::detail::write_text(disk, path, text);
}
inline const std::vector<held::Named> small{{"a", {3}}, {"b", {2, 5}}};

/// Whether all but the weights is of version 1.
inline bool rest_is(held::Holder& holder) {
  bool same = holder.state.step == 1 && holder.state.scalars["scale"] == 0.25;
  for (std::size_t t = 0; t < holder.state.tensors.size(); ++t) {
    const zero::HeldTensor& tensor = holder.state.tensors[t];
    same = same && tensor.counter == 1 + static_cast<std::int64_t>(t);
    for (std::size_t p = 1; p < tensor.parts.size(); ++p) {
      for (const zero::HeldRange& range : tensor.parts[p].ranges) {
        const float first = 100'000.0F + static_cast<float>(t * 10'000 + p * 1'000 + range.begin);
        same = same && (range.count == 0 || *static_cast<float*>(range.data) == first);
      }
    }
  }
  return same;
}
struct Loaded {
  std::vector<std::string> errors{};
  std::vector<std::vector<float>> weights{};  // [tensor], of all ranks
  zero::LoadReport report{};                  // of rank 0
  std::uint64_t most_bytes = 0;               // that a rank read
  bool rest_is_left = true;
};
/// Loads into ranks that hold small() of version 1.
inline Loaded load(MemoryFiles& disk, std::size_t ranks, const std::string& path,
                   zero::LoadWeightsOptions options,
                   const std::vector<held::Named>& tensors = small) {
  Loaded loaded;
  options.files = &disk;
  loaded.errors.resize(ranks);
  for (const held::Named& tensor : tensors) loaded.weights.emplace_back(tensor.shape.elements());
  std::vector<zero::LoadReport> reports(ranks);
  std::vector<char> left(ranks);
  held::on_ranks(ranks, 1, tensors, [&](held::Holder& holder, zero::ThreadCommunicator& comm) {
    holder.fill(1);
    loaded.errors[comm.rank()] = held::error_of(
        [&] { reports[comm.rank()] = zero::load_weights(holder.state, comm, path, options); });
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      for (const zero::HeldRange& range : holder.state.tensors[t].parts[0].ranges) {
        std::memcpy(loaded.weights[t].data() + range.begin, range.data, range.count * 4);
      }
    }
    left[comm.rank()] = rest_is(holder);
  });
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    loaded.rest_is_left = loaded.rest_is_left && left[rank] != 0;
    loaded.most_bytes = std::max(loaded.most_bytes, reports[rank].bytes_read);
  }
  loaded.report = reports[0];
  return loaded;
}
inline std::vector<float> from(float first, std::size_t count) {
  std::vector<float> all(count);
  for (float& value : all) value = first++;
  return all;
}

}  // namespace loaded
