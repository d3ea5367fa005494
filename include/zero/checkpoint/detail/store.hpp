// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A directory of checkpoints: how one becomes visible, which is the latest, which are removed. May
// include base/.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <zero/base/error.hpp>
#include <zero/checkpoint/detail/file_io.hpp>
#include <zero/checkpoint/detail/text.hpp>
#include <zero/checkpoint/files.hpp>
#include <zero/checkpoint/manifest.hpp>

namespace zero::detail {

/// Checkpoints are directories in one directory, beside the file `latest` with the name of one.
/// What is unfinished has a name that begins with a dot, and counts as absent.
class Store {
 public:
  static constexpr std::string_view latest = "latest", numbered = "step-";
  static constexpr std::string_view writing = ".writing-", removing = ".removing-";

  Store(Files& files, std::string path) : files_(files), path_(std::move(path)) {}

  static std::string numbered_name(std::int64_t step) {
    return std::string(numbered) + std::to_string(step);
  }
  /// Errors:  ContractError for what cannot be the name of a checkpoint.
  static void check_name(const std::string& name) {
    if (is_base_name(name) && name.size() <= 200 && name[0] != '.' && name != latest &&
        is_utf8(name)) {
      return;
    }
    throw ContractError("zero::save: " + in_quotes(name) +
                        " cannot name a checkpoint; use up to 200 characters of UTF-8 without a "
                        "slash, not a dot in front, and not 'latest'");
  }
  std::string in(std::string_view name) const { return path_ + '/' + std::string(name); }
  /// Where the files of checkpoint `name` are written.
  std::string temporary(const std::string& name) const { return in(std::string(writing) + name); }

  /// Makes the directory where there is none, removes what earlier saves left unfinished, and makes
  /// the temporary directory of `name`.
  void begin(const std::string& name) {
    make_directories(path_);
    std::vector<std::string> stale = names();
    std::erase_if(stale, [](const std::string& entry) {
      return !entry.starts_with(writing) && !entry.starts_with(removing);
    });
    // What lies there may have been a checkpoint until its name was exchanged: that must last.
    if (!stale.empty()) sync(path_);
    for (const std::string& entry : stale) remove_all(in(entry));
    retry("make directory", temporary(name),
          [&] { return files_.make_directory(this->temporary(name)); });
  }
  /// Makes the checkpoint visible under its name: at one instant, and durably when this returns.
  /// An earlier one of that name is replaced.
  void commit(const std::string& name) {
    const std::string from = temporary(name), to = in(name);
    sync(from);
    const int renamed = retry_quietly([&] { return files_.rename(from, to); });
    if (renamed == -ENOTEMPTY || renamed == -EEXIST) {
      retry("exchange", to, [&] { return files_.exchange(from, to); });
    } else if (renamed < 0) {
      fail_file("rename", to, renamed);
    }
    sync(path_);
  }
  void point_latest(const std::string& name) {
    const std::string made = temporary(std::string(latest));
    write_text(files_, made, name + '\n');
    retry("rename", in(latest), [&] { return files_.rename(made, this->in(latest)); });
    sync(path_);
  }
  /// Removes what the commit of `name` replaced, and numbered checkpoints but for the newest
  /// `keep`, 0 standing for all. `name` stays.
  void retain(const std::string& name, std::size_t keep) {
    remove_all(temporary(name));
    if (keep == 0) return;
    std::vector<std::int64_t> steps = numbers();
    std::sort(steps.rbegin(), steps.rend());
    const bool is_numbered = std::any_of(
        steps.begin(), steps.end(), [&](std::int64_t step) { return numbered_name(step) == name; });
    std::size_t kept = is_numbered ? 1 : 0;
    for (const std::int64_t step : steps) {
      const std::string other = numbered_name(step);
      if (other == name || ++kept <= keep) continue;
      const std::string doomed = in(std::string(removing) + other);
      retry("rename", doomed, [&] { return files_.rename(this->in(other), doomed); });
      sync(path_);  // before its files go, so that it never is a checkpoint without them
      remove_all(doomed);
    }
  }
  /// Removes the temporary directory of a save that failed before its commit.
  void give_up(const std::string& name) noexcept {
    try {
      remove_all(temporary(name));
    } catch (...) {  // the next save removes it
    }
  }

  /// The directory of the checkpoint that the path means: itself, or what `latest` names in it; if
  /// there is no `latest` yet, the one of most steps.
  ///
  /// Errors:  CheckpointError if there is none.
  std::string resolve() {
    const std::vector<std::string> all = names();
    const auto has = [&](std::string_view name) {
      return std::find(all.begin(), all.end(), name) != all.end();
    };
    if (has(Manifest::file_name)) return path_;
    if (has(latest)) {
      std::string name = read_text(files_, in(latest), 256);
      if (!name.empty() && name.back() == '\n') name.pop_back();
      if (is_base_name(name) && name[0] != '.' && is_utf8(name)) return in(name);
      throw CheckpointError("zero::load: file '" + in(latest) + "' is damaged: " + in_quotes(name) +
                            " is no name of a checkpoint; load one by its own path");
    }
    const std::vector<std::int64_t> steps = numbers();
    if (!steps.empty()) return in(numbered_name(*std::max_element(steps.begin(), steps.end())));
    throw CheckpointError("zero::load: '" + path_ + "' holds no checkpoint: neither " +
                          Manifest::file_name + " nor a directory " + std::string(numbered) +
                          "N; check the path");
  }
  Files& files() { return files_; }

 private:
  void sync(const std::string& directory) {
    retry("sync directory", directory, [&] { return files_.sync_directory(directory); });
  }
  std::vector<std::string> names() {
    std::vector<std::string> names;
    retry("list", path_, [&] {
      names.clear();
      return files_.list(path_, names);
    });
    return names;
  }
  /// The steps of the checkpoints that are named by theirs.
  std::vector<std::int64_t> numbers() {
    std::vector<std::int64_t> steps;
    for (const std::string& name : names()) {
      if (!name.starts_with(numbered)) continue;
      const std::int64_t step = count_from(std::string_view(name).substr(numbered.size()));
      if (step >= 0) steps.push_back(step);
    }
    return steps;
  }
  void make_directories(const std::string& path) {
    const std::size_t slash = path.find_last_of('/', path.find_last_not_of('/'));
    const std::string parent = slash == path.npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
    const auto make = [&] { return files_.make_directory(path); };
    int made = retry_quietly(make);
    if (made == -ENOENT) {
      make_directories(parent);
      made = retry_quietly(make);
    }
    if (made < 0 && made != -EEXIST) fail_file("make directory", path, made);
    if (made == 0) sync(parent);
  }
  /// Removes a file, or a directory of files; nothing if it is not there.
  void remove_all(const std::string& path) {
    std::vector<std::string> entries;
    const int listed = retry_quietly([&] {
      entries.clear();
      return files_.list(path, entries);
    });
    if (listed == -ENOENT) return;
    if (listed == -ENOTDIR) {
      retry("remove", path, [&] { return files_.remove(path); });
      return;
    }
    if (listed < 0) fail_file("list", path, listed);
    for (const std::string& entry : entries) {
      const std::string file = path + '/' + entry;
      retry("remove", file, [&] { return files_.remove(file); });
    }
    retry("remove directory", path, [&] { return files_.remove_directory(path); });
  }

  Files& files_;
  std::string path_;
};

}  // namespace zero::detail
