// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// WeightFiles: tensors in a safetensors file, or in a folder of them with the index that Hugging
// Face writes. May include base/.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/file_io.hpp>
#include <zero/checkpoint/detail/json.hpp>
#include <zero/checkpoint/detail/json_text.hpp>
#include <zero/checkpoint/detail/text.hpp>
#include <zero/checkpoint/files.hpp>
#include <zero/checkpoint/safetensors.hpp>

namespace zero {

/// What the headers of such files say, checked; and the numbers, when they are asked for.
class WeightFiles {
 public:
  static constexpr const char* one_file = "model.safetensors";  // the name of a model in one file
  /// The name of the index of several.
  static constexpr const char* index_file = "model.safetensors.index.json";
  /// What is larger is refused.
  static constexpr std::uint64_t most_index_bytes = std::uint64_t{1} << 28;

  /// A tensor, and in which file it is.
  struct Tensor {
    StoredTensor stored;   // as its file says it
    std::size_t file = 0;  // a number of a file
  };

  /// `path` is a safetensors file, or a folder with model.safetensors or with the index of several
  /// files. `files` must outlive the object.
  ///
  /// Errors:  CheckpointError if there is none, a header is damaged or hostile, or index and files
  ///          name other tensors.
  explicit WeightFiles(std::string path, Files& files = disk_files())
      : files_(files), directory_(std::move(path)) {
    while (directory_.size() > 1 && directory_.ends_with('/')) directory_.pop_back();
    std::vector<std::string> names;
    const int listed = files_.list(directory_, names);
    const auto has = [&](const char* name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    std::map<std::string, std::string> index;  // tensor -> file
    std::set<std::string> wanted;
    if (listed == -ENOTDIR) {
      const std::size_t slash = directory_.find_last_of('/');
      wanted.insert(directory_.substr(slash + 1));
      directory_ = slash == directory_.npos ? "." : directory_.substr(0, slash);
    } else if (listed < 0) {
      detail::fail_file("list", directory_, listed);
    } else if (has(one_file)) {
      wanted.insert(one_file);
    } else if (has(index_file)) {
      index = read_index();
      for (const auto& [tensor, file] : index) wanted.insert(file);
    } else {
      throw CheckpointError("zero: folder '" + directory_ + "' holds neither " + one_file +
                            " nor " + index_file + "; check the path");
    }
    for (const std::string& name : wanted) add(read_header(name));
    if (has(index_file) && !has(one_file)) compare(index);
  }
  /// What text() of another object says: the same files, whose headers are read again, and
  /// compared, before numbers are.
  WeightFiles(const std::string& path, std::string_view text, Files& files)
      : files_(files), directory_(path) {
    const std::string where = "the list of files in '" + path + "'";
    detail::JsonReader json(text, where);
    json.array([&] {
      File file;
      json.object([&](const std::string& key) {
        if (key == "bytes") {
          file.bytes = json.number();
        } else {
          (key == "name" ? file.name : file.text) = json.string();
        }
      });
      add(std::move(file));
    });
  }
  /// The headers, so that ranks can compare them.
  std::string text() const {
    detail::JsonText json;
    json.array([&] {
      for (const File& file : all_) {
        json.object([&] {
          json.key("name").string(file.name).key("bytes").number(file.bytes);
          json.key("text").string(file.text);
        });
      }
    });
    return json.take();
  }

  /// Where they are.
  const std::string& directory() const { return directory_; }
  /// Of all files.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  /// The path of a tensor's file.
  std::string file_of(const Tensor& tensor) const { return in(all_[tensor.file].name); }

  /// Reads bytes [begin, begin + bytes) of a tensor.
  ///
  /// Errors:  CheckpointError if the file is no longer what its header said.
  void read(const Tensor& tensor, std::uint64_t begin, std::uint64_t bytes, void* data) {
    const File& file = all_[tensor.file];
    if (open_ == nullptr || open_file_ != tensor.file) {
      open_.reset();
      if (read_header(file.name).text != file.text) {
        throw CheckpointError("zero: file '" + in(file.name) +
                              "' has another header than was read before; leave it alone while it "
                              "is loaded, and give all ranks the same one");
      }
      open_ = std::make_unique<detail::InFile>(files_, in(file.name));
      open_file_ = tensor.file;
    }
    open_->read(data, bytes,
                SafetensorsHeader::length_bytes + file.text.size() + tensor.stored.begin + begin);
  }

 private:
  struct File {
    std::string name;
    std::uint64_t bytes = 0;
    std::string text{};  // of its header
  };

  std::string in(const std::string& name) const { return directory_ + '/' + name; }
  File read_header(const std::string& name) const {
    File file{name};
    detail::InFile from(files_, in(name));
    file.bytes = from.size();
    char first[SafetensorsHeader::length_bytes] = {};
    if (file.bytes >= sizeof first) from.read(first, sizeof first, 0);
    file.text.resize(safetensors_text_bytes(first, file.bytes, "file '" + in(name) + "'"));
    from.read(file.text.data(), file.text.size(), sizeof first);
    return file;
  }
  void add(File file) {
    const std::string where = "file '" + in(file.name) + "'";
    for (StoredTensor& tensor : parse_safetensors(file.text, file.bytes, where).tensors) {
      if (!names_.insert(tensor.name).second) {
        throw CheckpointError(where + " holds tensor " + detail::in_quotes(tensor.name) +
                              ", as another file of the folder does; take another copy");
      }
      tensors_.push_back({std::move(tensor), all_.size()});
    }
    all_.push_back(std::move(file));
  }
  std::map<std::string, std::string> read_index() const {
    const std::string where = "file '" + in(index_file) + "'";
    const std::string text = detail::read_text(files_, in(index_file), most_index_bytes);
    std::map<std::string, std::string> index;
    detail::JsonReader json(text, where);
    json.object([&](const std::string& key) {
      if (key != "weight_map") return json.skip();
      json.object([&](const std::string& tensor) {
        std::string file = json.string();
        if (!detail::is_base_name(file) || !file.ends_with(".safetensors")) {
          json.fail(detail::in_quotes(file) + " is no name of a safetensors file in the folder");
        }
        index.emplace(tensor, std::move(file));
      });
    });
    json.end();
    if (index.empty()) json.fail("its weight_map is missing or empty");
    return index;
  }
  void compare(const std::map<std::string, std::string>& index) const {
    std::size_t found = 0;
    for (const Tensor& tensor : tensors_) {
      const auto entry = index.find(tensor.stored.name);
      const std::string& file = all_[tensor.file].name;
      if (entry != index.end() && entry->second == file) {
        ++found;
        continue;
      }
      refuse(tensor.stored.name, "lies in " + detail::in_quotes(file) + ", where the index has " +
                                     (entry == index.end() ? "none of that name" : "it elsewhere"));
    }
    if (found == index.size()) return;
    for (const auto& [tensor, file] : index) {
      if (!names_.contains(tensor)) refuse(tensor, "is not in " + detail::in_quotes(file));
    }
  }
  [[noreturn]] void refuse(const std::string& tensor, const std::string& what) const {
    throw CheckpointError("file '" + in(index_file) + "' is damaged or of other files: tensor " +
                          detail::in_quotes(tensor) + ' ' + what + "; take another copy");
  }

  Files& files_;
  std::string directory_;
  std::vector<File> all_;
  std::vector<Tensor> tensors_;
  std::set<std::string> names_;
  std::unique_ptr<detail::InFile> open_;
  std::size_t open_file_ = 0;
};

}  // namespace zero
