// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// merge: the weights of a checkpoint as one safetensors file, or as several in the layout of
// Hugging Face. May include base/ and layout/.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/check_conversion.hpp>
#include <zero/checkpoint/detail/file_io.hpp>
#include <zero/checkpoint/detail/json_text.hpp>
#include <zero/checkpoint/files.hpp>
#include <zero/checkpoint/manifest.hpp>
#include <zero/checkpoint/safetensors.hpp>
#include <zero/checkpoint/stored_checkpoint.hpp>

namespace zero {

/// What a caller may choose of a merge.
struct MergeOptions {
  /// The type that all weights get; nothing: each keeps its own.
  std::optional<DataType> type{};
  /// Rounds to a type of fewer bits.
  bool narrowing = false;
  /// Bytes of tensors in a file of a folder; one tensor alone may have more.
  std::uint64_t file_bytes = 5'000'000'000;
  /// Told of bytes that are written, and of all.
  StoredCheckpoint::Progress progress{};
};

namespace detail {

/// The weights of a checkpoint on their way into files.
class Merger {
 public:
  Merger(StoredCheckpoint& from, const MergeOptions& options) : from_(from), options_(options) {
    const Manifest& manifest = from.manifest();
    for (std::size_t t = 0; t < manifest.tensors.size(); ++t) {
      const Manifest::Tensor& tensor = manifest.tensors[t];
      for (std::size_t p = 0; p < tensor.parts.size(); ++p) {
        if (tensor.parts[p].name != "weight") continue;
        const DataType stored = tensor.parts[p].type, type = options.type.value_or(stored);
        check_conversion("zero::merge: tensor " + in_quotes(tensor.name), stored, type,
                         options.narrowing);
        sources_.push_back({t, p, stored, type});
        entries_.push_back({.name = tensor.name,
                            .type = stored_name(type),
                            .shape = {tensor.shape.dims, tensor.shape.dims + tensor.shape.rank},
                            .bytes = tensor.shape.elements() * size_of(type)});
        all_ += entries_.back().bytes;
      }
    }
  }
  /// The file appears when it is complete; one of that name is replaced.
  void into_file(const std::string& path) {
    const std::string made = path + ".writing";
    files().remove(made);
    write(made, 0, entries_.size());
    appear(made, path);
  }
  /// So does the folder, which may be there only if it is empty.
  void into_folder(const std::string& path) {
    std::vector<std::string> names;
    const int listed = files().list(path, names);
    if (listed != -ENOENT && (listed < 0 || !names.empty())) {
      throw CheckpointError("zero::merge: '" + path +
                            "' is there already, and not an empty folder; give a new one");
    }
    const std::string made = path + ".writing";
    names.clear();
    files().list(made, names);
    for (const std::string& name : names) files().remove(made + '/' + name);
    files().remove_directory(made);
    retry("make directory", made, [&] { return this->files().make_directory(made); });
    const std::vector<std::size_t> ends = cut();
    JsonText index;
    index.object([&] {
      index.key("metadata").object([&] { index.key("total_size").number(all_); });
      index.key("weight_map").object([&] {
        std::size_t begin = 0;
        for (std::size_t f = 0; f < ends.size(); begin = ends[f++]) {
          const std::string name = file_name(f, ends.size());
          write(made + '/' + name, begin, ends[f]);
          for (std::size_t i = begin; i < ends[f]; ++i) index.key(entries_[i].name).string(name);
        }
      });
    });
    write_text(files(), made + "/model.safetensors.index.json", index.take() + '\n');
    retry("sync directory", made, [&] { return this->files().sync_directory(made); });
    appear(made, path);
  }

 private:
  struct Source {
    std::size_t tensor, part;
    DataType stored, type;
  };

  Files& files() const { return from_.files(); }
  static std::string file_name(std::size_t file, std::size_t files) {
    char name[80];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", file + 1, files);
    return name;
  }
  /// Where each file ends: tensors in order, as many as its bytes allow, at least one.
  std::vector<std::size_t> cut() const {
    std::vector<std::size_t> ends;
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const bool fits = entries_[i].bytes <= options_.file_bytes &&
                        bytes <= options_.file_bytes - entries_[i].bytes;
      if (i > 0 && !fits) {
        ends.push_back(i);
        bytes = 0;
      }
      bytes += entries_[i].bytes;
    }
    ends.push_back(entries_.size());
    return ends;
  }
  void write(const std::string& path, std::size_t begin, std::size_t end) {
    const std::string header = write_safetensors(
        std::span<StoredTensor>(entries_).subspan(begin, end - begin), {{"format", "pt"}});
    OutFile out(files(), path);
    out.write(header.data(), header.size());
    for (std::size_t i = begin; i < end; ++i) {
      const Source& source = sources_[i];
      const std::uint64_t count = entries_[i].bytes / size_of(source.type);
      numbers_.resize(count * size_of(source.stored));
      from_.read(source.tensor, source.part, numbers_.data());
      if (source.type != source.stored) {
        converted_.resize(entries_[i].bytes);
        convert(source.stored, numbers_.data(), source.type, converted_.data(), count);
      }
      out.write((source.type == source.stored ? numbers_ : converted_).data(), entries_[i].bytes);
      done_ += entries_[i].bytes;
      if (options_.progress) options_.progress(done_, all_);
    }
    out.finish();
  }
  void appear(const std::string& made, const std::string& path) {
    retry("rename", path, [&] { return this->files().rename(made, path); });
    const std::size_t slash = path.find_last_of('/');
    const std::string directory = slash == path.npos ? "." : path.substr(0, slash + 1);
    retry("sync directory", directory, [&] { return this->files().sync_directory(directory); });
  }

  StoredCheckpoint& from_;
  const MergeOptions& options_;
  std::vector<Source> sources_;
  std::vector<StoredTensor> entries_;  // alike
  std::uint64_t all_ = 0, done_ = 0;
  std::vector<std::byte> numbers_, converted_;  // one tensor
};

}  // namespace detail

/// Writes the weights of a checkpoint, tensor by tensor, in the order of the model: into one file
/// if `path` ends with .safetensors, else into a new folder of files of limited size with their
/// index, as Hugging Face lays them out. Either appears when it is complete.
///
/// Errors:  CheckpointError for damage, for types that lose bits though `narrowing` was not asked
///          for, if the folder is there already, or if the file system fails.
inline void merge(StoredCheckpoint& checkpoint, std::string path,
                  const MergeOptions& options = {}) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  detail::Merger merger(checkpoint, options);
  path.ends_with(".safetensors") ? merger.into_file(path) : merger.into_folder(path);
}

}  // namespace zero
