// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A Manifest as text and back: JSON within an envelope that holds its digest. May include base/ and
// layout/.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/json.hpp>
#include <zero/checkpoint/detail/json_text.hpp>
#include <zero/checkpoint/manifest.hpp>
#include <zero/layout/flat_layout.hpp>

namespace zero::detail {

inline void write(JsonText& json, const Manifest::File& file) {
  json.object([&] {
    json.key("name").string(file.name);
    json.key("header_bytes").number(file.header_bytes);
    json.key("header").string(file.header.text());
    json.key("digest").string(file.digest.text());
    json.key("pieces").array([&] {
      for (const Manifest::Piece& piece : file.pieces) {
        json.object([&] {
          json.key("tensor").number(piece.tensor).key("part").number(piece.part);
          json.key("begin").number(piece.begin).key("count").number(piece.count);
          json.key("chunks").array([&] {
            for (const Digest& chunk : piece.chunks) json.string(chunk.text());
          });
        });
      }
    });
  });
}

/// "F32", or "BF16 in F32" of what is exact in fewer bits.
inline std::string text_of_types(const Manifest::Part& part) {
  const std::string type(stored_name(part.type));
  return part.exact_in ? std::string(stored_name(*part.exact_in)) + " in " + type : type;
}
inline bool read_types(std::string_view text, Manifest::Part& part) {
  if (const std::size_t in = text.find(" in "); in != text.npos) {
    part.exact_in = data_type_of(text.substr(0, in));
    if (!part.exact_in) return false;
    text = text.substr(in + 4);
  }
  const std::optional<DataType> type = data_type_of(text);
  part.type = type.value_or(part.type);
  return type.has_value();
}

inline constexpr std::string_view manifest_begin = "{\"xxh3_128\":\"";
inline constexpr std::string_view manifest_middle = "\",\"checkpoint\":";
inline constexpr std::string_view manifest_end = "}\n";

/// The text of manifest.json. The digest is of the value of "checkpoint".
inline std::string write_manifest(const Manifest& manifest) {
  JsonText json;
  json.object([&] {
    json.key("version").number(Manifest::version);
    json.key("step").number(static_cast<std::uint64_t>(manifest.step));
    json.key("chunk_bytes").number(manifest.chunk_bytes);
    json.key("scalars").object([&] {
      for (const auto& [name, value] : manifest.scalars) {
        char digits[64];  // the fewest that give the same number again
        const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
        json.key(name).string({digits, static_cast<std::size_t>(end - digits)});
      }
    });
    json.key("user").object([&] {
      for (const auto& [name, value] : manifest.user) json.key(name).string(value);
    });
    json.key("tensors").array([&] {
      for (const Manifest::Tensor& tensor : manifest.tensors) {
        json.object([&] {
          json.key("name").string(tensor.name).key("shape").array([&] {
            for (int i = 0; i < tensor.shape.rank; ++i) {
              json.number(static_cast<std::uint64_t>(tensor.shape.dims[i]));
            }
          });
          json.key("counter").number(static_cast<std::uint64_t>(tensor.counter));
          json.key("parts").array([&] {
            for (const Manifest::Part& part : tensor.parts) {
              json.object([&] {
                json.key("name").string(part.name).key("type").string(text_of_types(part));
              });
            }
          });
        });
      }
    });
    json.key("files").array([&] {
      for (const Manifest::File& file : manifest.files) write(json, file);
    });
  });
  const std::string body = json.take();
  return std::string(manifest_begin) + Digest::of(body).text() + std::string(manifest_middle) +
         body + std::string(manifest_end);
}

/// Reads what the writers above write. All fields must be there, and no other.
class ManifestReader {
 public:
  ManifestReader(std::string_view text, const std::string& where) : json_(text, where) {}

  Manifest::File file() {
    Manifest::File file;
    fields({"name", "header_bytes", "header", "digest", "pieces"}, [&](int field) {
      switch (field) {
        case 0: file.name = json_.string(); break;
        case 1: file.header_bytes = json_.number(most); break;
        case 2: file.header = this->digest(); break;
        case 3: file.digest = this->digest(); break;
        default: json_.array([&] { file.pieces.push_back(this->piece()); });
      }
    });
    return file;
  }
  Manifest manifest() {
    Manifest made;
    bool is_first = true;
    fields(
        {"version", "step", "chunk_bytes", "scalars", "user", "tensors", "files"}, [&](int field) {
          if (std::exchange(is_first, false) && field != 0) {
            json_.fail("the version does not come first");
          }
          switch (field) {
            case 0: this->version(); break;
            case 1: made.step = this->count(); break;
            case 2: made.chunk_bytes = json_.number(); break;
            case 3:
              json_.object([&](const std::string& name) { made.scalars[name] = this->scalar(); });
              break;
            case 4:
              json_.object([&](const std::string& name) { made.user[name] = json_.string(); });
              break;
            case 5: json_.array([&] { made.tensors.push_back(this->tensor()); }); break;
            default: json_.array([&] { made.files.push_back(this->file()); });
          }
        });
    json_.end();
    return made;
  }
  void end() { json_.end(); }

 private:
  static constexpr std::uint64_t most = FlatLayout::max_elements;

  /// Calls read(i) for each field i, which are all there.
  template <class F>
  void fields(std::initializer_list<std::string_view> names, F read) {
    std::size_t found = 0;
    json_.object([&](const std::string& key) {
      int i = 0;
      for (const std::string_view name : names) {
        if (name == key) {
          ++found;
          return read(i);
        }
        ++i;
      }
      json_.fail("the field " + in_quotes(key) + " is unknown");
    });
    if (found != names.size()) json_.fail("a field is missing");
  }
  void version() {
    const std::uint64_t got = json_.number();
    if (got == Manifest::version) return;
    json_.fail("it has version " + std::to_string(got) + " of the format, and this library reads " +
               std::to_string(Manifest::version) + " only");
  }
  /// To which a run can still add.
  std::int64_t count() { return static_cast<std::int64_t>(json_.number(std::uint64_t{1} << 62U)); }
  double scalar() {
    const std::string text = json_.string();
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      json_.fail(in_quotes(text) + " is not a number");
    }
    return value;
  }
  Digest digest() {
    const std::string text = json_.string();
    const auto made = Digest::from_text(text);
    if (!made) json_.fail(in_quotes(text) + " is not a digest");
    return *made;
  }
  Manifest::Tensor tensor() {
    Manifest::Tensor tensor;
    fields({"name", "shape", "counter", "parts"}, [&](int field) {
      switch (field) {
        case 0: tensor.name = json_.string(); break;
        case 1: tensor.shape = this->shape(); break;
        case 2: tensor.counter = this->count(); break;
        default: json_.array([&] { tensor.parts.push_back(this->part()); });
      }
    });
    return tensor;
  }
  Shape shape() {
    Shape shape;
    json_.array([&] {
      if (shape.rank == Shape::max_rank) json_.fail("a shape has more than 4 dimensions");
      shape.dims[shape.rank++] = static_cast<std::int64_t>(json_.number(most));
    });
    std::uint64_t room = most;
    bool empty = false;
    for (int i = 0; i < shape.rank; ++i) empty = empty || shape.dims[i] == 0;
    for (int i = 0; i < shape.rank && !empty; ++i) {
      const auto extent = static_cast<std::uint64_t>(shape.dims[i]);
      if (extent > room) json_.fail("a shape has more than 2^58 elements");
      room /= extent;
    }
    return shape;
  }
  Manifest::Part part() {
    Manifest::Part part;
    fields({"name", "type"}, [&](int field) {
      const std::string text = json_.string();
      if (field == 0) {
        part.name = text;
      } else {
        if (!read_types(text, part)) json_.fail("the type " + in_quotes(text) + " is unknown");
      }
    });
    return part;
  }
  Manifest::Piece piece() {
    Manifest::Piece piece;
    fields({"tensor", "part", "begin", "count", "chunks"}, [&](int field) {
      switch (field) {
        case 0: piece.tensor = json_.number(most); break;
        case 1: piece.part = json_.number(most); break;
        case 2: piece.begin = json_.number(most); break;
        case 3: piece.count = json_.number(most); break;
        default: json_.array([&] { piece.chunks.push_back(this->digest()); });
      }
    });
    return piece;
  }

  JsonReader json_;
};

/// Reads the text of a manifest.json and checks all that it says.
///
/// Errors:  CheckpointError, in which `where` names the file.
inline Manifest read_manifest(std::string_view text, const std::string& where) {
  constexpr std::size_t digits = 32;
  const std::size_t before = manifest_begin.size() + digits + manifest_middle.size();
  if (text.size() < before + manifest_end.size() || !text.starts_with(manifest_begin) ||
      text.substr(before - manifest_middle.size(), manifest_middle.size()) != manifest_middle ||
      !text.ends_with(manifest_end)) {
    throw CheckpointError(where +
                          " is not a manifest of zero, or is damaged: its first or last bytes are "
                          "others; load another checkpoint");
  }
  const std::string_view body = text.substr(before, text.size() - before - manifest_end.size());
  if (Digest::from_text(text.substr(manifest_begin.size(), digits)) != Digest::of(body)) {
    throw CheckpointError(where + " is damaged: its digest differs; load another checkpoint");
  }
  Manifest manifest = ManifestReader(body, where).manifest();
  manifest.check(where);
  return manifest;
}

/// One file of a manifest as text, for its way to the rank that writes the manifest.
inline std::string write_file_record(const Manifest::File& file) {
  JsonText json;
  write(json, file);
  return json.take();
}
inline Manifest::File read_file_record(std::string_view text) {
  const std::string where = "zero::save: the record of a rank";
  ManifestReader reader(text, where);
  Manifest::File file = reader.file();
  reader.end();
  return file;
}

}  // namespace zero::detail
