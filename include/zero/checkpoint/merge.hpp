// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Whole checkpoints without a model: opened, verified, merged into one file. May include base/ and
// layout/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/file_io.hpp>
#include <zero/checkpoint/detail/manifest_text.hpp>
#include <zero/checkpoint/detail/read_plan.hpp>
#include <zero/checkpoint/detail/store.hpp>
#include <zero/checkpoint/files.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/checkpoint/manifest.hpp>
#include <zero/checkpoint/safetensors.hpp>

namespace zero {

/// A checkpoint whose manifest was read and checked.
class StoredCheckpoint {
 public:
  /// Told of bytes that are done, and of all.
  using Progress = std::function<void(std::uint64_t done, std::uint64_t all)>;

  /// `path` is as for zero::load; `files` must outlive the object.
  ///
  /// Errors:  CheckpointError if there is none, or its manifest is damaged.
  explicit StoredCheckpoint(const std::string& path, Files& files = disk_files())
      : files_(files), path_(detail::Store(files, path).resolve()) {
    const std::string file = path_ + '/' + Manifest::file_name;
    manifest_ = detail::read_manifest(detail::read_text(files, file, Manifest::most_bytes),
                                      "file '" + file + "'");
  }

  const Manifest& manifest() const { return manifest_; }
  const std::string& path() const { return path_; }

  /// Reads every byte and compares it with its digest.
  ///
  /// Errors:  CheckpointError that names the file and the tensor.
  void verify(const Progress& progress = {}) {
    std::uint64_t all = 0, done = 0;
    for (const Manifest::File& file : manifest_.files) all += manifest_.bytes(file);
    for (const Manifest::File& file : manifest_.files) {
      Manifest one = manifest_;
      one.files = {file};
      detail::ReadPlan plan(one, files_, path_);
      for (std::size_t t = 0; t < one.tensors.size(); ++t) {
        for (std::size_t p = 0; p < one.tensors[t].parts.size(); ++p) {
          plan.want(t, p, whole(t, p, nullptr));
        }
      }
      plan.verify();
      done += manifest_.bytes(file);
      if (progress) progress(done, all);
    }
  }
  /// Writes the weights into one safetensors file, tensor by tensor, in the order of the model. The
  /// file appears when it is complete; one of that name is replaced.
  ///
  /// Errors:  CheckpointError for damage, or if the file system fails.
  void merge(const std::string& file, const Progress& progress = {}) {
    std::vector<StoredTensor> entries;
    std::vector<std::size_t> parts;
    std::uint64_t all = 0, done = 0;
    for (const Manifest::Tensor& tensor : manifest_.tensors) {
      std::size_t p = 0;
      while (p < tensor.parts.size() && tensor.parts[p].name != "weight") ++p;
      parts.push_back(p);
      if (p == tensor.parts.size()) continue;
      const DataType type = tensor.parts[p].type;
      entries.push_back({.name = tensor.name,
                         .type = stored_name(type),
                         .shape = {tensor.shape.dims, tensor.shape.dims + tensor.shape.rank},
                         .bytes = tensor.shape.elements() * size_of(type)});
      all += entries.back().bytes;
    }
    const std::string made = file + ".writing";
    files_.remove(made);
    const std::string header = write_safetensors(entries, {{"format", "pt"}});
    {
      detail::OutFile out(files_, made);
      out.write(header.data(), header.size());
      std::vector<std::byte> numbers;
      for (std::size_t t = 0; t < parts.size(); ++t) {
        const Manifest::Tensor& tensor = manifest_.tensors[t];
        if (parts[t] == tensor.parts.size()) continue;
        numbers.resize(tensor.shape.elements() * size_of(tensor.parts[parts[t]].type));
        detail::ReadPlan plan(manifest_, files_, path_);
        plan.want(t, parts[t], whole(t, parts[t], numbers.data()));
        plan.verify();
        plan.take();
        out.write(numbers.data(), numbers.size());
        done += numbers.size();
        if (progress) progress(done, all);
      }
      out.finish();
    }
    detail::retry("rename", file, [&] { return files_.rename(made, file); });
    const std::size_t slash = file.find_last_of('/');
    const std::string directory = slash == file.npos ? "." : file.substr(0, slash + 1);
    detail::retry("sync directory", directory, [&] { return files_.sync_directory(directory); });
  }

 private:
  HeldPart whole(std::size_t t, std::size_t p, void* data) const {
    const Manifest::Tensor& tensor = manifest_.tensors[t];
    HeldPart part{tensor.parts[p].name, tensor.parts[p].type};
    part.ranges.push_back({0, tensor.shape.elements(), data});
    return part;
  }

  Files& files_;
  std::string path_;
  Manifest manifest_;
};

}  // namespace zero
