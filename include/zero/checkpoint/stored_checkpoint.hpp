// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// StoredCheckpoint: a checkpoint without a model, opened, verified and read. May include base/ and
// layout/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <zero/checkpoint/detail/file_io.hpp>
#include <zero/checkpoint/detail/manifest_text.hpp>
#include <zero/checkpoint/detail/read_plan.hpp>
#include <zero/checkpoint/detail/store.hpp>
#include <zero/checkpoint/files.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/checkpoint/manifest.hpp>

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

  /// What is in it.
  const Manifest& manifest() const { return manifest_; }
  /// Its directory.
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
  /// Reads all elements of part `p` of tensor `t` of the manifest.
  ///
  /// Errors:  CheckpointError that names the file and the tensor.
  void read(std::size_t t, std::size_t p, void* data) {
    detail::ReadPlan plan(manifest_, files_, path_);
    plan.want(t, p, whole(t, p, data));
    plan.verify();
    plan.take();
  }
  /// By which it is read.
  Files& files() const { return files_; }

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
