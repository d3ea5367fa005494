// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Whole reads and writes over Files, with errors as exceptions. May include base/.
#pragma once

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/checkpoint/files.hpp>

namespace zero::detail {

[[noreturn]] inline void fail_file(const char* operation, const std::string& path,
                                   std::int64_t error) {
  const int number = static_cast<int>(-error);
  throw CheckpointError("zero: " + std::string(operation) + " of '" + path +
                        "' failed: " + std::generic_category().message(number) + " (error " +
                        std::to_string(number) + ")" +
                        (number == ELOOP ? "; links are not followed, so give the file itself"
                         : number == ENOENT || number == ENOTDIR
                             ? "; check the path"
                             : "; free or repair the file system, and try again"));
}

/// Calls f() again while it says EINTR; throws for every other error.
template <class F>
std::int64_t retry(const char* operation, const std::string& path, F f) {
  for (;;) {
    const std::int64_t result = f();
    if (result >= 0) return result;
    if (result != -EINTR) fail_file(operation, path, result);
  }
}
/// As retry, but gives the errors that are expected to the caller.
template <class F>
int retry_quietly(F f) {
  for (;;) {
    const int result = f();
    if (result != -EINTR) return result;
  }
}

/// A file that is open for reading. Closing it changes nothing and cannot fail in a way that
/// matters.
class InFile {
 public:
  InFile(Files& files, std::string path)
      : files_(files),
        path_(std::move(path)),
        file_(static_cast<int>(retry("open", path_, [&] { return files_.open(path_); }))) {}
  InFile(const InFile&) = delete;
  InFile& operator=(const InFile&) = delete;
  ~InFile() { files_.close(file_); }

  std::uint64_t size() {
    return static_cast<std::uint64_t>(retry("size", path_, [&] { return files_.size(file_); }));
  }
  void read(void* data, std::size_t bytes, std::uint64_t offset) {
    auto* at = static_cast<std::byte*>(data);
    while (bytes > 0) {
      const auto got = static_cast<std::size_t>(
          retry("read", path_, [&] { return files_.read(file_, at, bytes, offset); }));
      if (got == 0 || got > bytes) {
        throw CheckpointError("zero: file '" + path_ + "' is damaged: it ends at byte " +
                              std::to_string(offset) + ", " + std::to_string(bytes) +
                              " bytes too early; load another checkpoint");
      }
      at += got;
      offset += got;
      bytes -= got;
    }
  }
  const std::string& path() const { return path_; }

 private:
  Files& files_;
  std::string path_;
  int file_;
};

/// A new file. It is durable, but for its name, when finish() has returned.
class OutFile {
 public:
  OutFile(Files& files, std::string path)
      : files_(files),
        path_(std::move(path)),
        file_(static_cast<int>(retry("create", path_, [&] { return files_.create(path_); }))) {}
  OutFile(const OutFile&) = delete;
  OutFile& operator=(const OutFile&) = delete;
  ~OutFile() {
    stop();
    if (file_ >= 0) files_.close(file_);
  }

  /// Collects what is written in blocks that a disk can take as they are; a thread beside writes
  /// them while others are filled.
  void write(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    while (bytes > 0) {
      if (used_ == capacity_) make_room();
      const std::size_t count = std::min(bytes, capacity_ - used_);
      std::memcpy(block_.get() + used_, from, count);
      used_ += count;
      from += count;
      bytes -= count;
    }
  }
  void finish() {
    stop();
    if (error_) std::rethrow_exception(error_);
    // What a disk cannot take as it is comes last.
    const std::size_t whole = used_ / alignment * alignment;
    write_through(block_.get(), whole);
    write_through(block_.get() + whole, used_ - whole);
    retry("sync", path_, [&] { return files_.sync(file_); });
    const int result = files_.close(std::exchange(file_, -1));
    // Linux has closed a file when it says EINTR, and the data are durable already.
    if (result < 0 && result != -EINTR) fail_file("close", path_, result);
  }

 private:
  static constexpr std::size_t alignment = Files::block_bytes;
  static constexpr std::size_t few = std::size_t{1} << 16, most = std::size_t{1} << 20;
  static constexpr std::size_t most_blocks = 4;
  struct Free {
    void operator()(std::byte* data) const { operator delete[](data, std::align_val_t{alignment}); }
  };
  using Block = std::unique_ptr<std::byte[], Free>;
  static Block new_block(std::size_t bytes) {
    return Block(static_cast<std::byte*>(operator new[](bytes, std::align_val_t{alignment})));
  }

  /// A small file needs a small block; a large one gets a few.
  void make_room() {
    if (capacity_ < most) {
      Block larger = new_block(capacity_ == 0 ? few : most);
      if (used_ > 0) std::memcpy(larger.get(), block_.get(), used_);
      block_ = std::move(larger);
      capacity_ = capacity_ == 0 ? few : most;
      return;
    }
    if (!writer_.joinable()) writer_ = std::thread([this] { this->write_blocks(); });
    std::unique_lock lock(mutex_);
    full_.push_back(std::move(block_));
    changed_.notify_all();
    used_ = 0;
    if (empty_.empty() && blocks_ < most_blocks) {
      ++blocks_;
      block_ = new_block(most);
      return;
    }
    changed_.wait(lock, [this] { return error_ || !empty_.empty(); });
    if (error_) std::rethrow_exception(error_);
    block_ = std::move(empty_.back());
    empty_.pop_back();
  }
  /// Of the thread beside: it has the next block before it is done with one, so that the disk never
  /// waits for a thread to wake up.
  void write_blocks() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stops_ || !full_.empty(); });
      if (full_.empty()) return;
      Block block = std::move(full_.front());
      full_.pop_front();
      lock.unlock();
      std::exception_ptr error;
      try {
        write_through(block.get(), most);
      } catch (...) { error = std::current_exception(); }
      lock.lock();
      empty_.push_back(std::move(block));
      if (error) error_ = error;
      changed_.notify_all();
      if (error) return;
    }
  }
  /// Waits until all full blocks are written, or one was not.
  void stop() {
    if (!writer_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
      changed_.notify_all();
    }
    writer_.join();
  }
  void write_through(const std::byte* at, std::size_t bytes) {
    while (bytes > 0) {
      const auto done = static_cast<std::size_t>(
          retry("write", path_, [&] { return files_.write(file_, at, bytes); }));
      if (done == 0 || done > bytes) fail_file("write", path_, -EIO);
      at += done;
      bytes -= done;
    }
  }

  Files& files_;
  std::string path_;
  int file_;
  Block block_;  // that is filled
  std::size_t used_ = 0, capacity_ = 0, blocks_ = 1;
  std::thread writer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Block> full_, empty_;
  std::exception_ptr error_;
  bool stops_ = false;
};

/// All of a small file.
///
/// Errors:  CheckpointError if it has more than `most` bytes, before they are read.
inline std::string read_text(Files& files, const std::string& path, std::uint64_t most) {
  InFile file(files, path);
  const std::uint64_t bytes = file.size();
  if (bytes > most) {
    throw CheckpointError("zero: file '" + path + "' is damaged or hostile: it has " +
                          std::to_string(bytes) + " bytes, at most " + std::to_string(most) +
                          " are read; load another checkpoint");
  }
  std::string text(static_cast<std::size_t>(bytes), '\0');
  file.read(text.data(), text.size(), 0);
  return text;
}

/// A new file with this text, durable but for its name.
inline void write_text(Files& files, const std::string& path, std::string_view text) {
  OutFile file(files, path);
  file.write(text.data(), text.size());
  file.finish();
}

}  // namespace zero::detail
