// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// A file system in memory that notes what is durable, and from its notes makes the states in which
// a crash may leave a disk. For the tests of checkpoint/.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>
#include <zero/checkpoint/files.hpp>

namespace files {

class MemoryFiles : public zero::Files {
 public:
  /// One change: entries of a directory at one instant, or bytes of a file; or what makes all
  /// earlier changes of a directory or file durable.
  struct Change {
    enum class Kind { entries, write, sync } kind;
    int inode;                                           // the directory or file
    std::vector<std::pair<std::string, int>> entries{};  // name -> inode, or none
    std::size_t offset = 0;
    std::string data{};
  };
  static constexpr int none = -1;

  MemoryFiles() { nodes_[0].is_directory = true; }
  MemoryFiles(const MemoryFiles& other) : nodes_(other.nodes_) {}

  int create(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    const auto [parent, name] = place(path);
    if (parent < 0) return -ENOENT;
    if (nodes_[parent].entries.contains(name)) return -EEXIST;
    const int made = new_node(false);
    change({Change::Kind::entries, parent, {{name, made}}});
    return open_node(made);
  }
  int open(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    const int node = find(path);
    if (node < 0) return -ENOENT;
    return nodes_[node].is_directory ? -EISDIR : open_node(node);
  }
  std::int64_t size(int file) override {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(nodes_[open_.at(file).node].data.size());
  }
  std::int64_t write(int file, const void* data, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    Open& open = open_.at(file);
    change({Change::Kind::write,
            open.node,
            {},
            open.position,
            std::string(static_cast<const char*>(data), bytes)});
    open.position += bytes;
    return static_cast<std::int64_t>(bytes);
  }
  std::int64_t read(int file, void* data, std::size_t bytes, std::uint64_t offset) override {
    const std::lock_guard lock(mutex_);
    bytes_read += bytes;
    const std::string& all = nodes_[open_.at(file).node].data;
    if (offset >= all.size()) return 0;
    return static_cast<std::int64_t>(all.copy(static_cast<char*>(data), bytes, offset));
  }
  int sync(int file) override {
    const std::lock_guard lock(mutex_);
    change({Change::Kind::sync, open_.at(file).node});
    return 0;
  }
  int close(int file) override {
    const std::lock_guard lock(mutex_);
    return open_.erase(file) == 1 ? 0 : -EBADF;
  }
  int make_directory(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    const auto [parent, name] = place(path);
    if (parent < 0) return -ENOENT;
    if (nodes_[parent].entries.contains(name)) return -EEXIST;
    change({Change::Kind::entries, parent, {{name, new_node(true)}}});
    return 0;
  }
  int sync_directory(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    const int node = find(path);
    if (node < 0) return -ENOENT;
    change({Change::Kind::sync, node});
    return 0;
  }
  int rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    const auto [parent, name] = place(from);
    const auto [to_parent, to_name] = place(to);
    const int node = find(from), replaced = find(to);
    if (node < 0) return -ENOENT;
    if (parent != to_parent) return -EXDEV;
    if (replaced >= 0 && nodes_[replaced].is_directory && !nodes_[replaced].entries.empty()) {
      return -ENOTEMPTY;
    }
    change({Change::Kind::entries, parent, {{name, none}, {to_name, node}}});
    return 0;
  }
  int exchange(const std::string& a, const std::string& b) override {
    const std::lock_guard lock(mutex_);
    const int parent = place(a).first, first = find(a), second = find(b);
    if (first < 0 || second < 0) return -ENOENT;
    change({Change::Kind::entries, parent, {{place(a).second, second}, {place(b).second, first}}});
    return 0;
  }
  int remove(const std::string& file) override {
    const std::lock_guard lock(mutex_);
    const int node = find(file);
    if (node < 0) return -ENOENT;
    if (nodes_[node].is_directory) return -EISDIR;
    change({Change::Kind::entries, place(file).first, {{place(file).second, none}}});
    return 0;
  }
  int remove_directory(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    const int node = find(path);
    if (node < 0) return -ENOENT;
    if (!nodes_[node].is_directory) return -ENOTDIR;
    if (!nodes_[node].entries.empty()) return -ENOTEMPTY;
    change({Change::Kind::entries, place(path).first, {{place(path).second, none}}});
    return 0;
  }
  int list(const std::string& path, std::vector<std::string>& names) override {
    const std::lock_guard lock(mutex_);
    const int node = find(path);
    if (node < 0) return -ENOENT;
    if (!nodes_[node].is_directory) return -ENOTDIR;
    for (const auto& [name, child] : nodes_[node].entries) names.push_back(name);
    return 0;
  }

  /// The bytes of a file, to look at and to damage.
  std::string& contents(const std::string& path) { return nodes_.at(find(path)).data; }
  std::vector<std::string> names_in(const std::string& path) {
    std::vector<std::string> names;
    list(path, names);
    return names;
  }
  std::size_t open_files() const { return open_.size(); }
  std::size_t bytes_read = 0;

  /// Calls f(state) for disks that a crash may leave, at each point since `begin_notes`: all that
  /// was durable, with all, none, one, all but one, and `random` random choices of the changes that
  /// were not; in the random ones a write may be half there.
  void begin_notes() {
    changes_.clear();
    before_ = nodes_;
  }
  std::size_t for_each_crash(std::size_t random, const std::function<void(MemoryFiles&)>& f) const {
    std::mt19937 generator(1);
    std::size_t states = 0;
    for (std::size_t k = 0; k <= changes_.size(); ++k) {
      std::vector<std::size_t> open;  // what of the first k changes may be lost
      for (std::size_t i = 0; i < k; ++i) {
        bool durable = changes_[i].kind == Change::Kind::sync;
        for (std::size_t j = i + 1; j < k; ++j) {
          durable = durable || (changes_[j].kind == Change::Kind::sync &&
                                changes_[j].inode == changes_[i].inode);
        }
        if (!durable) open.push_back(i);
      }
      const auto state = [&](const std::function<double(std::size_t)>& share) {
        std::vector<double> shares(k, 1);
        for (std::size_t n = 0; n < open.size(); ++n) shares[open[n]] = share(n);
        MemoryFiles made = after(shares);
        f(made);
        ++states;
      };
      state([](std::size_t) { return 1; });
      state([](std::size_t) { return 0; });
      for (std::size_t one = 0; one < open.size() && open.size() > 1; ++one) {
        state([&](std::size_t n) { return n == one ? 1 : 0; });
        state([&](std::size_t n) { return n == one ? 0 : 1; });
      }
      for (std::size_t r = 0; r < random && open.size() > 1; ++r) {
        state([&](std::size_t) { return static_cast<double>(generator() % 3) / 2; });
      }
    }
    return states;
  }

 private:
  struct Node {
    bool is_directory = false;
    std::map<std::string, int> entries{};
    std::string data{};
  };
  struct Open {
    int node;
    std::size_t position = 0;
  };

  int new_node(bool is_directory) {
    const int node = nodes_.rbegin()->first + 1;
    nodes_[node].is_directory = is_directory;
    return node;
  }
  int open_node(int node) {
    open_[++last_] = {node};
    return last_;
  }
  /// The directory and the name of a path; the directory is none if it is not there.
  std::pair<int, std::string> place(const std::string& path) {
    const std::size_t slash = path.find_last_of('/');
    if (slash == path.npos) return {0, path};
    const int parent = find(path.substr(0, slash));
    return {parent >= 0 && nodes_[parent].is_directory ? parent : none, path.substr(slash + 1)};
  }
  int find(const std::string& path) {
    if (path == ".") return 0;
    const auto [parent, name] = place(path);
    if (parent < 0) return none;
    const auto entry = nodes_[parent].entries.find(name);
    return entry == nodes_[parent].entries.end() ? none : entry->second;
  }
  void change(Change made) {
    apply(nodes_, made, 1);
    changes_.push_back(std::move(made));
  }
  static void apply(std::map<int, Node>& nodes, const Change& change, double share) {
    Node& node = nodes[change.inode];
    if (change.kind == Change::Kind::entries && share == 1) {
      for (const auto& [name, inode] : change.entries) {
        if (inode == none) {
          node.entries.erase(name);
        } else {
          node.entries[name] = inode;
        }
      }
    }
    if (change.kind == Change::Kind::write && share > 0) {
      const auto bytes = static_cast<std::size_t>(share * static_cast<double>(change.data.size()));
      if (node.data.size() < change.offset + bytes) node.data.resize(change.offset + bytes);
      node.data.replace(change.offset, bytes, change.data, 0, bytes);
    }
  }
  MemoryFiles after(const std::vector<double>& shares) const {
    MemoryFiles made;
    made.nodes_ = before_;
    for (const auto& [inode, node] : nodes_) made.nodes_[inode].is_directory = node.is_directory;
    for (std::size_t i = 0; i < shares.size(); ++i) apply(made.nodes_, changes_[i], shares[i]);
    return made;
  }

  std::mutex mutex_;
  std::map<int, Node> nodes_;  // 0 is the root
  std::map<int, Open> open_;
  int last_ = 0;
  std::vector<Change> changes_;
  std::map<int, Node> before_;
};

/// Passes calls on, but for those that `fault` answers: it gets the number of the call from 0, its
/// name and the result with which it answers if it returns true.
class FaultyFiles : public zero::Files {
 public:
  using Fault =
      std::function<bool(std::size_t call, const std::string& name, std::int64_t& result)>;

  FaultyFiles(zero::Files& files, Fault fault) : files_(files), fault_(std::move(fault)) {}

  std::size_t calls() const { return calls_; }

  int create(const std::string& path) override {
    return call("create", [&] { return files_.create(path); });
  }
  int open(const std::string& path) override {
    return call("open", [&] { return files_.open(path); });
  }
  std::int64_t size(int file) override {
    return call("size", [&] { return files_.size(file); });
  }
  std::int64_t write(int file, const void* data, std::size_t bytes) override {
    return call(
        "write", [&] { return files_.write(file, data, bytes); },
        [&](std::int64_t part) {  // a short write writes that much
          return files_.write(file, data, std::min(bytes, static_cast<std::size_t>(part)));
        });
  }
  std::int64_t read(int file, void* data, std::size_t bytes, std::uint64_t offset) override {
    return call(
        "read", [&] { return files_.read(file, data, bytes, offset); },
        [&](std::int64_t part) {
          return files_.read(file, data, std::min(bytes, static_cast<std::size_t>(part)), offset);
        });
  }
  int sync(int file) override {
    return call("sync", [&] { return files_.sync(file); });
  }
  int close(int file) override {  // closes in any case, as Linux does
    const int result = files_.close(file);
    return call("close", [&] { return result; });
  }
  int make_directory(const std::string& path) override {
    return call("make_directory", [&] { return files_.make_directory(path); });
  }
  int sync_directory(const std::string& path) override {
    return call("sync_directory", [&] { return files_.sync_directory(path); });
  }
  int rename(const std::string& from, const std::string& to) override {
    return call("rename", [&] { return files_.rename(from, to); });
  }
  int exchange(const std::string& a, const std::string& b) override {
    return call("exchange", [&] { return files_.exchange(a, b); });
  }
  int remove(const std::string& file) override {
    return call("remove", [&] { return files_.remove(file); });
  }
  int remove_directory(const std::string& path) override {
    return call("remove_directory", [&] { return files_.remove_directory(path); });
  }
  int list(const std::string& path, std::vector<std::string>& names) override {
    return call("list", [&] { return files_.list(path, names); });
  }

 private:
  template <class F, class Short>
  auto call(const char* name, F f, Short shortened) -> decltype(f()) {
    std::int64_t result = 0;
    {
      const std::lock_guard lock(mutex_);
      if (!fault_(calls_++, name, result)) result = 1, name = nullptr;
    }
    if (name == nullptr) return f();
    return result > 0 ? shortened(result) : static_cast<decltype(f())>(result);
  }
  template <class F>
  auto call(const char* name, F f) -> decltype(f()) {
    return call(name, f, [&](std::int64_t) { return f(); });
  }

  zero::Files& files_;
  Fault fault_;
  std::mutex mutex_;
  std::size_t calls_ = 0;
};

}  // namespace files
