// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The header of a safetensors file: read strictly, and written. May include base/.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/json.hpp>
#include <zero/checkpoint/detail/json_text.hpp>
#include <zero/checkpoint/detail/text.hpp>
#include <zero/checkpoint/stored_type.hpp>

namespace zero {

static_assert(std::endian::native == std::endian::little,
              "zero: checkpoints are little-endian, and so must be the machine.");

/// One tensor of a safetensors file.
struct StoredTensor {
  std::string name;                    // as the file has it
  std::string_view type;               // one of stored_types
  std::vector<std::uint64_t> shape{};  // any number of dimensions
  std::uint64_t begin = 0;             // in the data that follow the header
  std::uint64_t bytes = 0;             // how many it has
};

/// What a safetensors file says about itself.
struct SafetensorsHeader {
  static constexpr std::uint64_t length_bytes = 8;          // in front of the header
  static constexpr std::uint64_t most_bytes = 100'000'000;  // of the text; as other readers have it

  std::vector<StoredTensor> tensors;            // in the order in which they lie in the file
  std::map<std::string, std::string> metadata;  // text by key
  std::uint64_t data_begin = 0;                 // in the file
};

/// Bytes of the header's text, from the first eight bytes of a file of `file_bytes`.
///
/// Errors:  CheckpointError if the text were too long or did not fit into the file.
inline std::uint64_t safetensors_text_bytes(std::span<const char, 8> first,
                                            std::uint64_t file_bytes, const std::string& where) {
  std::uint64_t length = 0;
  std::memcpy(&length, first.data(), sizeof length);
  constexpr std::uint64_t before = SafetensorsHeader::length_bytes;
  if (file_bytes >= before && length <= file_bytes - before &&
      length <= SafetensorsHeader::most_bytes) {
    return length;
  }
  throw CheckpointError(
      where + " is damaged or hostile: its header claims " + std::to_string(length) +
      " bytes, but the file has " + std::to_string(file_bytes) + ", and at most " +
      std::to_string(SafetensorsHeader::most_bytes) + " are read; take another copy");
}

namespace detail {

/// a * b, or false if it does not fit.
constexpr bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
  if (a != 0 && b > UINT64_MAX / a) return false;
  product = a * b;
  return true;
}

inline StoredTensor read_stored_tensor(JsonReader& json, const std::string& name,
                                       std::uint64_t data_bytes) {
  StoredTensor tensor{.name = name, .type = {}};
  std::vector<std::uint64_t> offsets;
  bool has_shape = false;
  json.object([&](const std::string& key) {
    if (key == "dtype") {
      const std::string type = json.string();
      for (const StoredType& known : stored_types) {
        if (known.name == type) tensor.type = known.name;
      }
      if (tensor.type.empty())
        json.fail("tensor " + in_quotes(name) + " has the unknown type " + in_quotes(type));
    } else if (key == "shape") {
      has_shape = true;
      json.array([&] { tensor.shape.push_back(json.number(INT64_MAX)); });
    } else if (key == "data_offsets") {
      json.array([&] {
        if (offsets.size() == 2) json.fail("tensor " + in_quotes(name) + " has three offsets");
        offsets.push_back(json.number(data_bytes));
      });
    } else {
      json.fail("tensor " + in_quotes(name) + " has the unknown field " + in_quotes(key));
    }
  });
  if (tensor.type.empty() || !has_shape || offsets.size() != 2) {
    json.fail("tensor " + in_quotes(name) + " lacks one of dtype, shape and two data_offsets");
  }
  std::uint64_t bytes = bytes_of_stored(tensor.type);
  for (const std::uint64_t extent : tensor.shape) {
    if (!multiply(bytes, extent, bytes)) {
      json.fail("the shape of tensor " + in_quotes(name) + " has 2^64 bytes or more");
    }
  }
  if (offsets[0] > offsets[1] || offsets[1] - offsets[0] != bytes) {
    json.fail("tensor " + in_quotes(name) + " of " + std::to_string(bytes) +
              " bytes lies at offsets " + std::to_string(offsets[0]) + " to " +
              std::to_string(offsets[1]));
  }
  tensor.begin = offsets[0];
  tensor.bytes = bytes;
  return tensor;
}

}  // namespace detail

/// Reads the text of a header in a file of `file_bytes`. `where` names the file in errors.
///
/// Errors:  CheckpointError unless the text is one object of known fields and types, each tensor
///          has the bytes of its shape, and the tensors fill the data without overlap or hole.
/// Source:  the description of the format in the repository huggingface/safetensors.
inline SafetensorsHeader parse_safetensors(std::string_view text, std::uint64_t file_bytes,
                                           const std::string& where) {
  detail::JsonReader json(text, where);
  if (text.empty() || text[0] != '{') json.fail("the header does not begin with {");
  SafetensorsHeader header;
  header.data_begin = SafetensorsHeader::length_bytes + text.size();
  if (header.data_begin > file_bytes) json.fail("the header is longer than the file");
  const std::uint64_t data_bytes = file_bytes - header.data_begin;
  json.object([&](const std::string& name) {
    if (name == "__metadata__") {
      json.object([&](const std::string& key) { header.metadata.emplace(key, json.string()); });
    } else {
      header.tensors.push_back(detail::read_stored_tensor(json, name, data_bytes));
    }
  });
  json.end();
  // An empty tensor comes before the one that begins where it lies.
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.bytes, a.name) < std::tie(b.begin, b.bytes, b.name);
  });
  std::uint64_t end = 0;
  for (const StoredTensor& tensor : header.tensors) {
    if (tensor.begin != end) {
      json.fail("tensor " + detail::in_quotes(tensor.name) +
                (tensor.begin < end ? " overlaps another" : " lies behind a hole"));
    }
    end = tensor.begin + tensor.bytes;
  }
  if (end != data_bytes) {
    json.fail("the tensors end at byte " + std::to_string(end) + " of the data, which have " +
              std::to_string(data_bytes));
  }
  return header;
}

/// The bytes before the data of a file that holds `tensors` one after the other; sets their
/// `begin`. The data begin at a multiple of 8 bytes.
///
/// Errors:  ContractError for a name given twice or that is not UTF-8; CheckpointError for a header
///          that readers would refuse.
inline std::string write_safetensors(std::span<StoredTensor> tensors,
                                     const std::map<std::string, std::string>& metadata = {}) {
  std::string text = "{";
  const auto comma = [&] { text += text.back() == '{' || text.back() == '[' ? "" : ","; };
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      comma();
      detail::append_json_string(text, key);
      text += ':';
      detail::append_json_string(text, value);
    }
    text += '}';
  }
  std::set<std::string_view> names{"__metadata__"};
  std::uint64_t end = 0;
  for (StoredTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw ContractError("zero: a safetensors file was to hold " + detail::in_quotes(tensor.name) +
                          " twice; rename one");
    }
    comma();
    detail::append_json_string(text, tensor.name);
    text += ":{\"dtype\":\"" + std::string(tensor.type) + "\",\"shape\":[";
    for (const std::uint64_t extent : tensor.shape) {
      comma();
      text += std::to_string(extent);
    }
    tensor.begin = end;
    end += tensor.bytes;
    text +=
        "],\"data_offsets\":[" + std::to_string(tensor.begin) + ',' + std::to_string(end) + "]}";
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  if (length > SafetensorsHeader::most_bytes) {
    throw CheckpointError("zero: the header of a safetensors file would have " +
                          std::to_string(length) +
                          " bytes, which no reader accepts; use fewer tensors or shorter names");
  }
  char first[SafetensorsHeader::length_bytes];
  std::memcpy(first, &length, sizeof first);
  return std::string(first, sizeof first) + text;
}

}  // namespace zero
